"""What is checked of records before they are appended."""
