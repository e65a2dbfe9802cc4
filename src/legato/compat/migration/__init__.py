"""Programs of other frameworks, moved. See docs/migrate/index.md."""

from legato.compat.migration.facades import FACADES, TITLES, covered_names
from legato.compat.migration.programs import Migration, Name, migrate_program
from legato.compat.migration.shadowing_modules import own_modules
from legato.compat.migration.unsupported_uses import Use

__all__ = ["FACADES", "TITLES", "Migration", "Name", "Use", "covered_names", "migrate_program", "own_modules"]
