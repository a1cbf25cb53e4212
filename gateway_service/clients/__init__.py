"""The services that the gateway calls, one module for each noun."""
