"""Right and partly right solutions of the tasks of the bundled environment."""

from collections.abc import Mapping

SOLUTIONS: Mapping[str, str] = {
    "write-file": "echo 'hello, world' > greeting.txt",
    "count-errors": "grep -c '^[^ ]* ERROR ' server.log > errors.txt",
    "sort-names": "LC_ALL=C sort -u names.txt > sorted.txt",
    "archive": "tar -czf notes.tar.gz notes && rm -r notes",
    "find-file": "grep -rlw needle tree > found.txt",
    "fix-shell": """cat > sum.sh <<'END'
total=0
for number in "$@"; do total=$((total + number)); done
echo $total
END""",
    "fix-python": """cat > median.py <<'END'
def median(numbers):
    if not numbers:
        raise ValueError("no numbers")
    ordered, half = sorted(numbers), len(numbers) // 2
    return ordered[half] if len(numbers) % 2 else (ordered[half - 1] + ordered[half]) / 2
END""",
    "json-total": """python3 -c '
import json
orders = json.load(open("orders.json"))
print(sum(each["price"] * each["count"] for each in orders if each.get("paid")))' > total.txt""",
    "csv-report": """{ echo region,total; tail -n +2 sales.csv |
  awk -F, '{ sum[$1] += $2 } END { for (name in sum) print name "," sum[name] }' |
  sort; } > report.csv""",
    "rename": """for file in photos/*.JPEG; do mv "$file" "${file%.JPEG}.jpg"; done""",
    "permissions": "chmod u+x bin/a bin/b.py; chmod a-x bin/c",
    "git-commit": """cd project && git checkout -q -b port && git commit -qam 'Use port 9090' &&
  git checkout -q main""",
    "write-program": """cat > primes.py <<'END'
import sys

most = int(sys.argv[1])
is_prime = bytearray([1]) * (most + 1)
for number in range(2, most + 1):
    if is_prime[number]:
        print(number)
        is_prime[number * number :: number] = bytes(len(is_prime[number * number :: number]))
END""",
    "replace-host": r"""find etc -name '*.conf' -exec \
  sed -i -E '/^#/!s/(^|[^a-z])old\.example/\1new.example/g' {} +""",
}
PARTS: Mapping[str, tuple[str, float]] = {
    "sort-names": ("sort names.txt | uniq > sorted.txt; echo pear >> sorted.txt", 0.5),
    "archive": ("rm notes/old/.hidden; tar -czf notes.tar.gz notes", 0.5),
    "fix-shell": ("echo 'echo $(($1 + ${2:-0}))' > sum.sh", 0.75),
    "fix-python": ("sed -i 's/numbers.sort()/numbers = sorted(numbers)/' median.py", 0.25),
    "csv-report": ("printf 'region,total\\nnorth,17\\nwest,1\\n' > report.csv", 0.5),
    "rename": ("mv photos/a.JPEG photos/a.jpg", 0.3333),
    "permissions": ("chmod u+x bin/*", 0.5),
    "git-commit": ("cd project && git commit -qam 'Use port 9090' && git branch port", 0.5),
    "write-program": ("echo 'for n in (2, 3, 5, 7, 11, 13): print(n)' > primes.py", 0.3333),
    "replace-host": ("sed -i s/old.example/new.example/ etc/*.conf etc/sub/*", 0.25),
}
"""Of some tasks a change that is worth a part, and the part."""
