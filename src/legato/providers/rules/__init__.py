"""The rules of each provider's API: which requests it refuses, and with which error. They run without a provider. Pure."""
