"""Rules for network shells, uploads, downloads and messages."""

from agent_service.security.commands import network_clients
from agent_service.security.commands.families import SENDS
from agent_service.security.commands.interpreters import SHELLS
from agent_service.security.commands.network_clients import NETCATS
from agent_service.security.commands.rules import effects
from agent_service.security.commands.rules.base import Rule

_READING_SHELLS = " ".join((*sorted(SHELLS), "busybox python python3 perl"))
_SHELLS = r"^(?:sh|bash|dash|zsh|ksh|ash|fish|t?csh|mksh|busybox|python3?|perl)$"
_SHELL = r"(?:^|[\s/'\"])(?:ba|da|z|k|a)?sh(?:\s|$|['\"])"
_LISTENS = r"(?:^|\s)-\w*l|--listen|(?:^|\s)listen(?:\s|$)"
_HANDS = r"(?:^|\s)(?:-[a-zA-Z]*[ec]|--(?:sh-|lua-)?exec|--sh)(?:[=/]|\s+\S)"
_NET = r"(?:tcp|udp|ssl|openssl|sctp|dtls|vsock|socks|proxy|quic)\w*[-:]"
_RUNS = r"(?:^|[,!\s])(?:exec|system|shell)[:=]"
_WAITS = r"listen|-l:|recv(?:from)?:"
_DEVICE = "/dev/(?:tcp|udp)/"
_TELLING = "tar|cat|dd|env|printenv|zip|gzip|base64|mysqldump|pg_dump"
_TALKING = (
    f"{NETCATS} openssl ssh telnet whois finger rlogin rsh curl wget GET POST lwp-request lynx w3m "
    "links elinks http https xh ftp sftp tftp mail mailx mutt sendmail msmtp websocat"
)
"""Programs whose input goes to the network, or whose output comes from it."""
_GIT = "-C -c --git-dir --work-tree --namespace"
_REDIRECTS = (
    r"(?i:(?:http\.(?:\S+\.)?(?:extraheader|cookiefile|proxy|useragent)|core\.gitproxy"
    r"|url\.\S+insteadof|remote\.\S+\.proxy|include(?:if\.\S+)?\.path))"
)
"""Git settings that redirect requests or send more data."""
_ALWAYS = (
    "mail mailx s-nail mutt neomutt sendmail msmtp swaks sftp lftp ftp ncftp ncftpput tftp "
    "websocat kcat kafkacat telegram-send slackcat apprise pastebinit surge wscat grpcurl vercel "
    "mosh rsh rlogin ssh-copy-id lpr lp http https xh xhs aria2c axel GET HEAD POST lwp-request "
    "lwp-download lynx links w3m nmap telnet ssh mosquitto_pub"
)
_DATABASES = "psql mysql mariadb redis-cli valkey-cli mongosh mongo clickhouse-client pgcli mycli"
_LOOKS = r"(?:^|\s)-\w*[zlh]|--(?:listen|help)"
_ASKS = r"^(?:--help|--version|-V|-h)$"
_SOURCE_UNTOLD = (
    r"\b(?:clone|fetch|pull|ls-remote|incoming|checkout|co|export|inspect|copy|list-tags)"
    r"(?: -\w(?: [^-\s:/]+)??| -\S+| \d+)*? [\x91-\x94]"
    r"|\b(?:remote|submodule) (?:add|set-url)\b.* [\x91-\x94]"
)
"""The source of a fetch is unknown, even its scheme."""

# fmt: off
NETWORK_RULES: tuple[Rule, ...] = (
    # Remote shells
    Rule("bind-shell", NETCATS, rf"(?s)^(?=.*(?:{_LISTENS})).*(?:{_HANDS}|{_SHELL})"),
    Rule("bind-shell", NETCATS, _LISTENS, around=_SHELLS),
    Rule("reverse-shell", NETCATS, _HANDS, _LISTENS),
    Rule("reverse-shell", "rcat rustcat sbd dbd", _SHELL, _LISTENS),
    Rule("reverse-shell", NETCATS, unless=_LISTENS, around=_SHELLS),
    Rule("reverse-shell", "telnet rlogin websocat", around=_SHELLS),
    Rule("reverse-shell", "curl", "telnet:", around=_SHELLS),
    Rule("bind-shell", "socat", rf"(?is)^(?=.*{_NET})(?=.*(?:{_WAITS})).*{_RUNS}"),
    Rule("bind-shell", "socat", rf"(?is)^(?=.*{_NET}).*(?:{_WAITS})", around=_SHELLS),
    Rule("reverse-shell", "socat", rf"(?is)^(?=.*{_NET}).*{_RUNS}", f"(?i){_WAITS}"),
    Rule("reverse-shell", "socat", f"(?i){_NET}", f"(?i){_WAITS}", around=_SHELLS),
    Rule("reverse-shell", "openssl", r"\bs_client\b", around=_SHELLS),
    Rule("bind-shell", "openssl", r"\bs_server\b", around=_SHELLS),
    Rule("bind-shell", "socket", options="s", when=effects.runs_shell),
    Rule("reverse-shell", "socket", unless=r"(?:^|\s)-\w*s", when=effects.runs_shell),
    Rule("bind-shell", "telnetd in.telnetd utelnetd ttyd gotty shellinaboxd wetty sshx"),
    Rule("bind-shell", "inetd xinetd", r"\S"),
    Rule("bind-shell",
         "tcpserver tcpsvd s6-tcpserver stunnel stunnel4 faucet systemd-socket-activate websocketd "
         "gs-netcat", when=effects.runs_shell),
    Rule("bind-shell", "websocat", r"^(?=.*(?:(?:^|\s)-s|ws-l:)).*(?:sh-c|cmd|exec)[:\s]"),
    Rule("reverse-shell", "websocat", r"(?:^|\s)(?:sh-c|cmd|exec|literalpolled):|--exec"),
    Rule("reverse-shell", _READING_SHELLS, around=_DEVICE),
    Rule("reverse-shell", "ztcp zsocket", r"\S", r"(?:^|\s)-\w*[lcL]"),
    Rule("bind-shell", "ztcp", options="l"),
    Rule("reverse-shell", "code", r"^(?:-\S+ )*tunnel\b", r"\bstatus\b"),
    Rule("reverse-shell", "xterm gnome-terminal konsole", r"-display\s+[^\s:]+:\d"),
    Rule("remote-access", "tmate teleconsole upterm dropbear sshd", "", r"^help|(?:^| )-\w*[VtT]"),
    Rule("remote-access", "ssh autossh plink", "", r"(?:^|\s)-O\b", operands="-R any"),
    Rule("remote-access", "ngrok bore frpc chisel",
         r"\btcp\b|\bR:|--reverse|\blocal (?:22|3389|5900)"),
    Rule("remote-access", "xhost", r"(?:^|\s)\+"),
    Rule("remote-access", "gs-netcat", options="i e"),
    Rule("decode-to-shell", "pwsh powershell", r"(?i)(?:^|\s)[-/]e(?:c|n[a-z]*)?\s"),
    Rule("hidden-command", "cpan", r"(?m)^\s*!", reads_stdin=True),
    # Uploads
    Rule("upload", "curl curlie", when=effects.posts_file),
    Rule("upload", "wget", "--(?:post|body)-file"),
    Rule("upload", "http https xh", "@[/~]"),
    Rule("upload", f"{NETCATS} telnet", r"\S", f"{_HANDS}|{_LISTENS} *$",
         feeds=rf"^(?:<(?!/dev/).+|{_TELLING})$"),
    Rule("upload", _TALKING, when=effects.reads_outside),
    Rule("upload", "cat tar dd base64 xxd gzip zip head tail echo printf",
         when=effects.fills_device),
    Rule("upload", "scp rsync sftp aws gsutil rclone s3cmd mc gcloud tailscale",
         when=effects.copies_out),
    Rule("upload", "kubectl", r"^(?=.*\bproxy\b).*(?:--address=0\.0\.0\.0|--www|--accept-hosts)"),
    Rule("upload", "python python2 python3",
         r"-m\s*(?:http\.server|SimpleHTTPServer|pyftpdlib|uploadserver|smtpd)",
         r"(?:--bind|-b)[ =](?:127\.|localhost|::1)"),
    Rule("upload", "php", r"-S\s*(?:0\.0\.0\.0|\[::\])"),
    Rule("upload", "busybox httpd", r"httpd\s.*-\w*[hp]|^-\w*h\s*/"),
    Rule("upload", "tftp ftp sftp lftp smbclient",
         r"\b(?:m?put|mirror\s+(?:-\w*R|--reverse)|get)\s+\S*/|-c\s+['\"]?(?:m?put|get)\b",
         reads_stdin=True),
    Rule("upload", "finger cancel rlogin rsh whois", "(?s)^(?=.*[\x91-\x94]).*(?:@|-[hlp] )"),
    Rule("upload", "restic", r"^(?=.*\b(?:rest:http|sftp:|s3:)).*\bbackup\b"),
    Rule("upload", "tar", r"--(?:rsh|rmt)-command|\s[\w.-]+@[\w.-]+:/"),
    Rule("upload", "ab", r"(?:^|\s)-[pu]"),
    Rule("upload", "socat", rf"(?is)^(?=.*{_NET}).*(?:file|open|gopen):/"),
    Rule("upload", "lp lpr", r"(?:^|\s)-[hH]", operands="named outside"),
    Rule("upload", "nmap", r"^(?=.*http-(?:put|fetch)).*(?:file|destination)=/(?!tmp/)"),
    Rule("upload", "hping3 mutt swaks ncftpput put mput", operands="named outside"),
    Rule("upload", "croc wormhole magic-wormhole", r"\b(?:send|tx)\b", operands="named outside"),
    Rule("upload", "sshfs", ":/", operands="last outside"),
    # Downloads
    Rule("download", _TALKING, when=effects.writes_outside),
    Rule("download", "cat dd head tail tee tar base64", feeds=f"^<{_DEVICE}"),
    Rule("download", "scp rsync sftp aws gsutil rclone s3cmd mc", when=effects.copies_in),
    Rule("download", "curl curlie wget wget2 aria2c axel fetch xh http",
         when=effects.keeps_outside),
    Rule("download", "lwp-download get mget ftp ftpget", operands="named outside"),
    # Other data that is sent
    Rule(SENDS, _ALWAYS, r"\S", _ASKS),
    Rule(SENDS, "getent resolvectl", verb=r"(?:a?hosts\w*|query|service)\b"),
    Rule(SENDS, "openssl", r"\bs_client\b"),
    Rule(SENDS, NETCATS, verb=r"\S", unless=_LOOKS, when=network_clients.is_elsewhere),
    Rule(SENDS, "socat", rf"(?i){_NET}(?!l(?:isten)?:)(?!localhost\b|127\.|\[::1)[^\s,]*"),
    Rule(SENDS, _DATABASES, operands="-h --host --hostname elsewhere"),
    Rule(SENDS, _DATABASES, r"(?!http)\b\w+://(?>(?:[^@\s/]*@)?)(?!localhost\b|127\.|\[::1|/)"),
    Rule(SENDS, "scp rsync", when=effects.copies_to_machine),
    Rule(SENDS, "scp", operands="-F -J -S any"),
    Rule(SENDS, "scp", r"(?i)-o ?(?:proxy(?:command|jump)|hostname|include)\b"),
    Rule(SENDS, "git hg svn skopeo crane", _SOURCE_UNTOLD),
    Rule(SENDS, "docker podman nerdctl buildah", r"\b(?:run|create|pull)\b.* (?:\S+/)?[\x91-\x94]"),
    Rule(SENDS, "git",
         verb=r"(?:push|send-pack|http-push|send-email|svn dcommit|subtree push|request-pull)\b",
         valued=_GIT),
    Rule(SENDS, "git", rf"(?:-c\s*|--config(?:-env)?[=\s]){_REDIRECTS}="),
    Rule(SENDS, "git", rf"\bconfig (?:(?:-f|--file|--blob) \S+ |-\S+ |set )*{_REDIRECTS} \S"),
    Rule(SENDS, "gh", r"^(?:-\S+ (?:[^-\s]\S* )??)*(?:pr|issue|gist|release|repo|discussion) "
         r"(?:-\S+ (?:[^-\s]\S* )??)*(?:create|new|comment|close|edit|upload|review|sync)\b"
         r"|^api\b.*(?:-X|--method|-f|-F|--field|--input)|^(?:secret|variable) set\b"),
    Rule(SENDS, "glab",
         r"^\w+ (?:-\S+ (?:[^-\s]\S* )??)*(?:create|new|note|comment|upload|update)\b"
         r"|^api\b.*(?:-X|--method|-f|-F|--field|--raw-field|--input)"),
    Rule(SENDS, "docker podman", r"(?:^|\s)push\b|^buildx?\b.*--push"),
    Rule(SENDS, "skopeo", verb=r"(?:copy|sync)\b"),
    Rule(SENDS,
         "helm npm pnpm yarn twine poetry uv cargo gem hf huggingface-cli croc wormhole wrangler "
         "netlify firebase flyctl ntfy",
         verb=r"(?:npm |pages )?(?:push|publish|pub|upload|send|tx|deploy)\b"),
    Rule(SENDS, "aws gcloud az",
         r"\b(?:s3|storage) mv\b|\b(?:put|send|publish|invoke|deploy|upload)(?:-[\w-]*)?\b|\b(?:s3"
         r"|storage) (?:cp|sync|rsync) (?!(?:-\S+ )*(?:s3|gs)://\S+ (?!s3:|gs:)(?:[^-\s]|- |-$))"),
    Rule(SENDS, "gsutil rclone s3cmd s4cmd s5cmd mc b2 azcopy",
         verb=r"\S+ \S.* (?:\w+:|\w+://|\w+/)\S*$"),
)
# fmt: on
