"""What clients asked a broker and what it answered, in a file that a person can read and a program can repeat."""
