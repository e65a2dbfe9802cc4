"""What each provider's API accepts and refuses, as rules that run without a provider. Pure."""
