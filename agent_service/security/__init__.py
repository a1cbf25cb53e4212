"""What a command or a text would do, judged before it is done."""
