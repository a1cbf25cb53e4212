"""What commands are judged to be."""
