"""How does a client's model answer? As a module that prepares its inputs and names its classes."""
