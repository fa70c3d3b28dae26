"""How does an algorithm run in a real federation? A server and sites exchange messages; personal parts stay."""
