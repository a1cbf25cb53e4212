"""Language models behind one seam; `base.py` is the contract."""
