"""Stands in for azure-identity, which the seeds import: a credential whose token the emulator accepts, as it does any."""

from typing import NamedTuple


class AccessToken(NamedTuple):
    token: str
    expires_on: int = 0


class AzureCliCredential:
    def get_token(self, *scopes: str) -> AccessToken:
        return AccessToken(f"a token for {' '.join(scopes)}")
