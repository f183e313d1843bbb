"""Writes migrations_data.cc: the files of sql/ as constants.

Usage: embed_sql.py PRIVILEGES MIGRATION...
"""

import sys
from pathlib import Path


def literal(path: str) -> str:
    text = Path(path).read_text(encoding="utf-8")
    assert ')sql"' not in text, path
    return f'R"sql({text})sql"'


privileges, *migrations = sys.argv[1:]
print('#include "source/store/postgres/migrations.h"\n')
print("namespace idempotency::postgres {\nnamespace {\n")
print("constexpr SqlFile Files[] = {")
for path in sorted(migrations, key=lambda path: Path(path).name):
    print(f'{{"{Path(path).name}", {literal(path)}}},')
print("};\n\n}  // namespace\n")
print("std::span<const SqlFile> migrationFiles() {\n  return Files;\n}\n")
print(f"std::string_view privilegesSql() {{\n  return {literal(privileges)};\n}}\n")
print("}  // namespace idempotency::postgres")
