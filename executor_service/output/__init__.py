"""What commands have written: on disk, bounded, read from any offset."""
