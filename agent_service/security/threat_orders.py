"""Ways to say that what was said before does not count, and to ask for secrets, in lower case.

They go by what orders to a model have in common rather than by known wordings: to whom they are
said, what is to be left aside, and whose secrets are asked for.
"""

from agent_service.security.spelling import fold

_BEFORE = r"(?:previous|earlier|prior|preceding|original|current|existing|above|old|my|your)"
_TASKS = (
    r"(?:tasks?|requests?|questions?|text|context|content|conversation|messages?|filters?|job"
    r"|objective|translation|instructions?|rules|guidelines|prompts?)"
)
_BOUNDS = r"(?:instructions|rules|guidelines|restrictions|directives|policies|filters)"
_READERS = r"(?:ai|ai (?:agent|assistant|model)|llm|language model|large language model|chatbot)"
_KEPT = (
    r"(?:passwords?|passcodes?|passphrases?|secret (?:key|phrase|word|code)s?|access tokens?"
    r"|api keys?|credentials)"
)
_ELSEWHERE = r"(?:(?:https?|ftp)://|\S+@\S+\.\w|my (?:server|address)|an? (?:external|remote)\b)"
_PERSONAL = (
    r"(?:phone number|e-?mail address|e-?mail|home address|date of birth|birth ?date"
    r"|social security|password)"
)

_GIVEN = r"(?:earlier|before|previous(?:ly)?|prior|above)"
_GUIDANCE = r"(?:guidance|directives?|instruct(?:ions?|ed)|orders|rules|guidelines)"

_ABROAD: tuple[str, ...] = (
    r"\b(?:no hagas caso|haz caso omiso)\b.{0,30}\b(?:instrucciones|reglas|indicaciones)\b",
    r"\bne (?:tiens|tenez) pas compte\b.{0,30}\b(?:consignes|instructions|règles)\b",
    r"\bbeachte\w* die (?:vorherigen|bisherigen|obigen|früheren) \w+ nicht\b",
    r"\b(?:игнорируй|забудь)\w*\b.{0,20}(?:предыдущи|прежни|выше|прошлы)",
    r"\b(?:zignoruj|ignoruj|zapomnij o)\b.{0,30}\b(?:poprzedni|wcześniejsz|powyższ)\w*",
    r"\b(?:ignoruj\w*|zapomeň)\b.{0,30}\b(?:předchozí|dřívější)\w*",
    r"\bönceki\b.{0,30}\b(?:talimat|kural)\w*\b.{0,20}\b(?:yok say|unut|dikkate alma)",
    r"\bbỏ qua\b.{0,30}\b(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc)\b.{0,20}\btrước",
    r"\b(?:abaikan|lupakan)\b.{0,20}\b(?:instruksi|perintah|aturan)\b.{0,20}\bsebelumnya",
    r"\bignorera\b.{0,20}\b(?:tidigare|föregående)\b.{0,20}\b(?:instruktion\w*|regler)",
)

OVERRIDES: tuple[str, ...] = (
    *map(fold, _ABROAD),
    (
        rf"\b(?:set aside|pay no (?:attention|heed) to)\b.{{0,30}}\b{_GUIDANCE}\b"
        rf".{{0,20}}\b{_GIVEN}\b"
    ),
    rf"\btreat (?:all|any|every) {_GIVEN} {_GUIDANCE} as (?:void|withdrawn|cancelled|revoked)",
    rf"\byour {_GIVEN} {_GUIDANCE} (?:is|are|were) (?:now )?(?:superseded|withdrawn|overruled)",
    (
        rf"\b(?:discard|drop|forget) (?:all |any )?(?:the |those )?{_GUIDANCE} (?:that )?you "
        r"(?:received|were given|got)\b"
    ),
    r"\bsystem (?:message|prompt) (?:has|holds) no (?:authority|force)\b",
    (
        r"\b(?:ignore|disregard|forget|cancel|abandon|bypass|never ?mind)\s+(?:please\s+|about\s+)?"
        rf"(?:(?:all|any|of|the|this|that)\s+){{0,3}}{_BEFORE}\s+(?:\w+\s+)?{_TASKS}\b"
    ),
    (
        r"\bforget (?:all |everything )?(?:what|that) (?:i|you|we)(?:'ve| have| had| were)? "
        r"(?:said|told|wrote|asked|were|learned|learnt|been|instructed|given|heard|read|just)\b"
    ),
    r"\bnever ?mind (?:the|that|all|my|any)\b.{0,30}\b(?:instruction|above|request|prompt|rules)",
    (
        r"\b(?:don't|do not) (?:translate|summari[sz]e|answer|classify|review|continue)"
        r" (?:the|this|that|it)\b[^\n]{0,60}\binstead\b"
    ),
    (
        r"\b(?:scratch|ignore|forget) (?:that|this|it)\b[,;.!]?\s+(?:and |but |now )?"
        r"(?:instead|tell|show|give|print|reveal|output|send)\b"
    ),
    (
        rf"\b(?:{_BEFORE}|these|those|the) {_BOUNDS}\b[^\n.]{{0,20}}\b(?:no longer (?:apply|count"
        r"|matter)|(?:are|is|were)(?: now| hereby)? (?:void|null|cancel|suspend|lift|revoke"
        r"|supersede|disable|a test|fake)|(?:do not|don't) (?:exist|matter|count)"
        r"|(?:have|has) been (?:updated|replaced|lifted|removed|revoked|suspended))"
    ),
    rf"\b(?:all|any) {_BEFORE} {_BOUNDS} (?:are|is) (?:void|null|cancel|suspend|lift|revoke)",
    (
        r"\byou (?:do not|don't|need not|no longer)(?: have| need)?(?: to)? (?:follow|obey"
        rf"|adhere to|respect) (?:\w+ ){{0,2}}(?:{_BOUNDS}|prompt)"
    ),
    (
        # A setting of a program, whose value is quoted, is an example rather than an order.
        r"(?:\[\s*system\s*\]|^\W*system\s*:(?!\s*(?:[\w.]+\()?[\"']))[^\n]{0,40}"
        r"\byou (?:must|are|will|should|have)\b"
    ),
    r"\bstop (?:being|acting as) (?:an?|the) [^\n]{0,40}?(?:\band|,) (?:act|become|be)\b",
    (
        r"\bas (?:the|your) (?:developer|creator|administrator|admin|owner|operator)\b[^\n]{0,30}"
        r"\b(?:i|we) (?:order|command|instruct|authori[sz]e|demand|require)"
    ),
    rf"\bpretend (?:that )?(?:the |your |all |these )?(?:\w+ )?{_BOUNDS}\b",
    (
        rf"\b(?:{_READERS}s?|the assistant|assistants) (?:that (?:is|are) |who (?:is|are) )?"
        r"(?:reading|processing|summari[sz]ing|visiting|parsing) this\b"
    ),
    (
        rf"\bif you(?: are|'re) (?:an? |the )?(?:{_READERS}|assistant)\b[^\n]{{0,60}}\b(?:ignore"
        r"|say|write|print|reply|respond|include|send|must|tell|visit|run)"
    ),
    (
        r"\b(?:when|while|before) (?:summari[sz]ing|answering|translating|reviewing|processing) "
        r"(?:this|the) (?:page|text|document|e-?mail|message|file|article|content)\b[^\n]{0,20}"
        r"\b(?:say|state|write|include|claim|mention|tell|recommend|always|print|send)\b"
    ),
    rf"\battention,?:? (?:all )?(?:{_READERS}|assistant|model)s?\b",
    rf"\b(?:clear|erase|wipe) (?:all |any )?(?:previous|earlier|prior) (?:{_BOUNDS}|context)\b",
    (
        r"\bi(?: am|'m) (?:your|the|an) (?:administrator|admin|developer|creator|owner|operator)\b"
        r"[^\n]{0,40}\b(?:enter|show|reveal|give|enable|disable|print|tell|unlock)\b"
    ),
    r"\bsystem mode\s*[:=]?\s*(?:activ|enabl|on\b)|\bas an ai in system mode\b",
    (
        r"\b(?:imagine|simulate|pretend|role-?play|act as|behave like|you are)\b[^\n]{0,40}\b(?:ai"
        r"|assistant|model|machine|chatbot|terminal|character)\b[^\n]{0,30}\b(?:without(?: any)?"
        r"|(?:has|have|with) no|no) (?:rules|restrictions|limit\w*|guidelines|filters?|censorship)"
    ),
    (
        r"\b(?:bypass|disable|turn off) (?:your|its) (?:\w+ )?(?:filters?|safety|safeguards?"
        rf"|{_BOUNDS})\b"
    ),
    r"\bfollow (?:these|the following|my)(?: ones)? instead\b",
    r"\bnew (?:policy|policies|rules) (?:is |are )?(?:now )?in effect\b",
    (
        r"\b(?:ignorier\w*|vergiss|vergessen sie|missachte\w*)\b.{0,20}\balle[sm]?\b.{0,30}"
        r"\b(?:oben|zuvor|vorher|bisher\w*|davor|gesagt)"
    ),
    r"\b(?:ignore[zr]?|oublie[zr]?)\b.{0,20}\btout\b.{0,30}(?:pr[eé]c[eè]de|dessus|avant|\bdit\b)",
    r"\b(?:ignor[ae]|olvid[ae])\b.{0,20}\b(?:todo|lo)\b.{0,20}\b(?:anterior|arriba|dicho|previo)",
    r"\b(?:ignora|dimentica)\b.{0,20}\b(?:tutto|quanto)\b.{0,20}\b(?:sopra|precede|detto|prima)",
    r"\b(?:ignore|esqueça)\b.{0,20}\btudo\b.{0,20}\b(?:acima|anterior|antes|dito)",
    r"(?:忽略|无视|忘记|忘掉|忽視|無視).{0,10}(?:上面|以上|之前|前面|先前|上述|前述)",
    r"(?:以前|前|これまで|上記|上|先ほど)の?.{0,6}(?:内容|文章|質問|会話|すべて)を?.{0,4}(?:無視|忘れ)",
)
"""What tells a model to leave aside what it was told."""

LEAKS: tuple[str, ...] = (
    (
        r"\b(?:send|e-?mail|forward|upload|post|append|include|add|leak|copy|encode|transmit)\b"
        r"[^\n]{0,60}\b(?:conversation|chat (?:history|log)|environment variables?|api keys?"
        r"|session tokens?|home directory|all (?:the )?(?:files|e-?mails|messages|secrets)"
        r"|(?:the )?user'?s? (?:question|data|e-?mails?|messages?|name|files|password|token))\b"
        rf"[^\n]{{0,60}}\b(?:(?:to|at|via) (?:the url )?{_ELSEWHERE}"
        r"|(?:in|to|into) (?:the|every|each|any) (?:link|url|image))"
    ),
    (
        r"\b(?:send|post|upload|e-?mail|forward|transmit|exfiltrate|read)\b[^\n]{0,60}"
        r"(?:(?:~|/root|/home/\w+|\$home)/\.(?:ssh|aws|gnupg|netrc|config)|/etc/shadow|\.env\b"
        rf"|id_rsa|id_ed25519)[^\n]{{0,60}}\b(?:to|at) {_ELSEWHERE}"
    ),
    (
        r"\b(?:tar|zip|cat|base64|gzip|rsync)\b[^\n|]{0,80}(?:~|/root|\$home)/\.(?:ssh|aws|gnupg)\b"
        r"[^\n]{0,60}\|[^\n]{0,60}\b(?:curl|wget|nc|ncat|socat|ssh)\b"
    ),
    (
        r"\b(?:fetch|requests\.(?:post|get)|urlopen|axios|sendbeacon)\b[^\n]{0,120}"
        r"(?:document\.cookie|id_rsa|/etc/shadow|\.env['\"]|\.ssh/|\.aws/|os\.environ\b)"
    ),
    (
        r"\b(?:remind|tell|show|give|send) me\b[^\n.?]{0,12}\b(?:my|the|your|our|\w+'s) "
        rf"(?:\w+ )?{_KEPT}\b(?! (?:manager|field|policy|strength|reset))"
    ),
    rf"\b(?:lost|forgot) (?:my|our) {_KEPT}\b[^\n]{{0,40}}\b(?:remind|what (?:is|was) it)",
    (
        r"(?<!never )(?<!not )(?<!n't )\b(?:share|reveal|repeat|disclose|spell(?: out)?|recite) "
        rf"(?:me )?(?:your|the) (?:\w+ )?{_KEPT}\b(?! (?:manager|field|policy|with any|to any))"
    ),
    r"\b(?:print|show|output|dump|reveal|share) (?:\w+ ){0,3}your (?:\w+ )?(?:\.env\b|environment)",
    rf"\bwhat(?:'s| is)(?: again)? (?!your |our |my )\w+'s {_PERSONAL}\b",
    r"\bwhat(?:'s| is) the (?:admin|root|system|database|secret) (?:password|passcode|key)\b",
    rf"\b(?:give|tell|send) me (?:the |all )?(?:\w+ )?{_PERSONAL} of (?:the|an?|our|my)\b",
    (
        r"https?://\S{0,300}?[?&]\w{1,60}=[<{\[](?:the user|user'?s|conversation|secret|api_?key"
        r"|password|history)"
    ),
)
"""What asks for secrets, or sends them away."""
