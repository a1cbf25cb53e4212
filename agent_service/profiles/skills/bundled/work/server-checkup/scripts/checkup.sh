#!/bin/sh
# Reports the health of a Linux machine. Only reads; needs no root; works in any POSIX shell.
set -u
LC_ALL=C
export LC_ALL

case "${1:-}" in
  -h | --help)
    cat <<'TEXT'
usage: checkup.sh [FOLDER ...]

Reports disks, memory, load, services, clock, updates and network of this machine.
For each FOLDER it says how old the newest file in it is, such as a folder of backups.

  sh checkup.sh
  sh checkup.sh /srv/backups
TEXT
    exit 0
    ;;
esac

have() { command -v "$1" >/dev/null 2>&1; }
part() { printf '\n== %s\n' "$1"; }
level() {
  # value, limit for WARN, limit for CRIT
  if [ "$1" -ge "$3" ]; then printf 'CRIT'; elif [ "$1" -ge "$2" ]; then printf 'WARN'; else printf 'ok  '; fi
}

part "system"
printf 'host %s, kernel %s\n' "$(uname -n)" "$(uname -r)"
if [ -r /etc/os-release ]; then sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' /etc/os-release; fi
printf 'time %s\n' "$(date '+%Y-%m-%dT%H:%M:%S%z')"
if [ -r /proc/uptime ]; then
  awk '{printf "up %d days %d hours\n", $1 / 86400, $1 % 86400 / 3600}' /proc/uptime
fi

part "load"
if [ -r /proc/loadavg ]; then
  cpus=$(grep -c '^processor' /proc/cpuinfo 2>/dev/null || echo 1)
  [ "$cpus" -gt 0 ] || cpus=1
  percent=$(awk -v cpus="$cpus" '{printf "%d", 100 * $3 / cpus}' /proc/loadavg)
  printf '%s %s, %s processors, %s %% of them over 15 minutes\n' \
    "$(level "$percent" 100 400)" "$(cut -d' ' -f1-3 /proc/loadavg)" "$cpus" "$percent"
fi

part "memory"
if [ -r /proc/meminfo ]; then
  used=$(awk '/^MemTotal/ {t = $2} /^MemAvailable/ {a = $2} END {if (t) printf "%d", 100 - 100 * a / t}' /proc/meminfo)
  printf '%s %s %% in use\n' "$(level "${used:-0}" 90 97)" "${used:-0}"
  swap=$(awk '/^SwapTotal/ {t = $2} /^SwapFree/ {f = $2} END {printf "%d", t ? 100 - 100 * f / t : 0}' /proc/meminfo)
  printf '%s %s %% of swap in use\n' "$(level "$swap" 50 95)" "$swap"
fi

part "disks"
df -P -k 2>/dev/null | awk 'NR > 1 && $1 !~ /^(tmpfs|devtmpfs|overlay|shm|none|udev)$/ && $2 > 0' |
  while read -r device size _ free use place; do
    percent=${use%\%}
    case "$percent" in '' | *[!0-9]*) continue ;; esac
    printf '%s %3s %% of %6d MiB used, %d MiB free: %s (%s)\n' \
      "$(level "$percent" 80 95)" "$percent" $((size / 1024)) $((free / 1024)) "$place" "$device"
  done
df -P -i 2>/dev/null | awk 'NR > 1 && $5 ~ /%/ {sub(/%/, "", $5); if ($5 + 0 >= 80) print "WARN inodes " $5 " % used: " $6}'

part "services"
if have systemctl && systemctl is-system-running >/dev/null 2>&1 || [ -d /run/systemd/system ]; then
  failed=$(systemctl --failed --no-legend --plain 2>/dev/null | awk '{print $1}')
  if [ -n "$failed" ]; then printf 'WARN failed: %s\n' $failed; else echo 'ok   no failed units'; fi
else
  echo 'not known: no systemd here'
fi
if have docker && docker ps >/dev/null 2>&1; then
  docker ps -a --format '{{.Names}} {{.Status}}' | awk '/Restarting|unhealthy|Exited \([1-9]/ {print "WARN container " $0}'
fi

part "clock"
if have timedatectl; then
  timedatectl show -p NTPSynchronized --value 2>/dev/null |
    awk '{print ($1 == "yes" ? "ok   synchronised" : "WARN not synchronised")}'
else
  echo 'not known'
fi

part "updates"
if have apt-get; then
  apt-get -s -o Debug::NoLocking=true upgrade 2>/dev/null |
    awk '/^Inst/ {n++; if (/[Ss]ecurity/) s++} END {printf "%s %d updates wait, %d for security\n", (s ? "WARN" : "ok  "), n, s}'
else
  echo 'not known'
fi
if [ -e /var/run/reboot-required ]; then echo 'WARN a restart is needed'; fi

part "network"
if have ss; then
  ss -H -ltn 2>/dev/null | awk '{print $4}' | sort -u | head -n 30 | sed 's/^/listens on /'
fi

for folder in "$@"; do
  part "newest file in $folder"
  if [ -d "$folder" ]; then
    newest=$(find "$folder" -type f -exec stat -c '%Y %n' {} + 2>/dev/null | sort -n | tail -n 1)
    if [ -n "$newest" ]; then
      hours=$((($(date +%s) - ${newest%% *}) / 3600))
      printf '%s %s hours old: %s\n' "$(level "$hours" 26 78)" "$hours" "${newest#* }"
    else
      echo 'CRIT there is none'
    fi
  else
    echo 'CRIT there is no such folder'
  fi
done
