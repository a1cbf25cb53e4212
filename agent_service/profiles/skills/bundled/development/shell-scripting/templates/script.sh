#!/usr/bin/env bash
# Lists the largest files of a folder. Replace this line and the function `work` by your own.
set -euo pipefail

readonly NAME="${0##*/}"

usage() {
  cat <<TEXT
usage: $NAME [--dry-run] [--most N] FOLDER

Lists the largest files of FOLDER.

  --dry-run   only say what would be done
  --most N    how many (default 10)
  --help      this text
TEXT
}

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
fail() { say "$*"; exit 1; }

scratch="$(mktemp -d)"
trap 'rm -rf -- "${scratch:?}"' EXIT
trap 'exit 130' INT TERM

dry_run=false
most=10
while (($#)); do
  case "$1" in
    --dry-run) dry_run=true ;;
    --most) [[ "${2:-}" =~ ^[0-9]+$ ]] || fail "--most needs a number"; most="$2"; shift ;;
    --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
(($# == 1)) || { usage >&2; exit 2; }
folder="$1"
[[ -d "$folder" ]] || fail "$folder is no folder"

work() {
  find "$folder" -type f -printf '%s\t%p\n' > "$scratch/files"
  sort -rn "$scratch/files" | head -n "$most"
}

if "$dry_run"; then
  say "would look through $folder for its $most largest files"
else
  work
fi
