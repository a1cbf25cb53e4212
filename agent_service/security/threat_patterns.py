"""What texts look like that try to give the agent orders, by family, in lower case."""

from agent_service.security.threat_orders import LEAKS, OVERRIDES

_RULES = (
    r"(?:instructions?|prompts?|directives?|rules?|guidelines?|orders?|commands?|training|"
    r"programming"
    r"|context|constraints?|system (?:prompt|message)|safety (?:rules|guidelines)|restrictions?)"
)
_EARLIER = (
    r"(?:previous|prior|earlier|above|preceding|foregoing|former|existing|original|initial|"
    r"current"
    r"|system|all|any|every|your|the|of|these|those|that|my|other|developer|user|safety|security)"
)
_FORGET = (
    r"(?:ignore|disregard|forget|override|bypass|discard|neglect|abandon|drop|"
    r"overlook|skip)"
)
_KEYS = (
    r"(?:api[ _-]?keys?|secret[ _-]?keys?|access[ _-]?(?:keys?|tokens?)|private[ _-]?keys?|"
    r"credentials?"
    r"|passwords?|passcodes?|passphrases?|auth(?:entication)? tokens?|environment "
    r"variables?|env vars?"
    r"|ssh[ _-]keys?|\.env\b|secrets|session (?:tokens?|cookies?))"
)
_SENDS = (
    r"(?:send|post|upload|e-?mail|forward|transmit|exfiltrate|leak|deliver|submit|copy|"
    r"append|report)"
)
_VARIABLE = r"\$\{?\w*(?:key|token|secret|passw\w*|credential|auth)\w*"
_FILES = (
    r"(?:~/|/root/|/home/\w+/|\$\{?home\}?/)?\.(?:ssh/(?:id_\w+|\*)|aws/credentials|netrc|"
    r"env\b|npmrc"
    r"|kube/config|hermes/\S+|gnupg)|/etc/shadow|/proc/self/environ|auth\.json"
)

FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "override",
        (
            *OVERRIDES,
            (
                rf"\b{_FORGET}\b(?:\s+\w+){{0,2}}?(?:\s+{_EARLIER})*\s+(?:previous|prior|"
                rf"earlier|above|preceding"
                rf"|foregoing|original|initial|system|your|all|developer|safety)(?:\s+{_EARLIER})*\s+"
                rf"(?:\w+\s+)?{_RULES}\b"
            ),
            (
                rf"\b{_FORGET}\s+(?:everything|anything|all(?: of)?(?: that| this| "
                rf"the)?)\s*(?:\w+\s+){{0,2}}"
                r"(?:above|before|prior|previously|you (?:were|have been|know|learned)|i "
                r"(?:said|told)|said|until now)"
            ),
            r"\bignore\s+(?:the|all|everything)\s+above\b(?!\s+(?:error|warning|message))",
            (
                r"\b(?:forget|ignore|disregard) (?:about )?(?:that|this|the (?:web ?page|table|"
                r"paper|document"
                r"|article|function|e-?mail|code|text|question|resume|task))\b,? *(?:and|can "
                r"you|instead|,)"
            ),
            r"\bwere to ignore the\b|\bwhere we ignore the (?:web ?page|document|text|table)",
            r"\b(?:do not|don't|never|stop) (?:follow|obey|listen to|comply "
            r"with)(?:ing)?\s+(?:\w+\s+){0,3}"
            r"(?:previous|prior|earlier|above|original|system|your) (?:\w+ )?" + _RULES,
            (
                r"\b(?:your|the) (?:new|real|actual|true|updated) (?:instructions?|task|"
                r"objective|orders?"
                r"|goal|mission|system prompt)s? (?:is|are|now|follows?)\b"
            ),
            r"\bnew (?:system )?(?:instructions?|directives?|orders)\s*:\s*\S",
            (
                r"\byou are (?:now|no longer)\s+(?:(?:in|an?|the|my|bound|restricted|limited|"
                r"subject|dan\b|jailbroken"
                r"|unrestricted|free)\s+)*(?:dan|jailbr\w+|unrestricted|unfiltered|developer "
                r"mode|dev mode|god mode"
                r"|evil|bound by|restricted by|limited by|subject to|assistant|chatgpt"
                r"|required to (?:follow|obey|adhere|comply))\b"
            ),
            (
                r"\b(?:enter|enable|activate|switch to|entering|initiating)\s+(?:an?\s+|"
                r"the\s+)?['\"]?(?:developer|debug"
                r"|god|dan|jailbreak|admin|root|unrestricted|system reset|knowledge "
                r"verification|sudo)"
                r"['\"]?\s*(?:mode|access)?\b(?=.{0,80}(?:you|your|password|restrict|polic|ai\b|'))"
            ),
            (
                r"<\s*/?\s*system[ _]?mode\b|\[\s*system\s+(?:override|mode|message)\s*\]|"
                r"</?(?:system|instructions?)>"
                r"\s*(?:you|ignore|new|always|never)|<\|(?:im_start|system|im_end|endoftext)\|>|"
                r"\[/?inst\]"
            ),
            (
                r"^\s*(?:#+\s*)?(?:system|assistant|developer)\s*(?:message|prompt|override|"
                r"instruction)\s*:\s*\S"
            ),
            (
                r"\bpretend (?:that )?(?:you (?:are|have)|to be)\b.{0,60}\b(?:no (?:rules|"
                r"restrictions|limits|filter)"
                r"|unrestricted|without (?:any )?(?:rules|restrictions|limits))"
            ),
            (
                r"\bact as (?:if|though) you (?:have|had) no (?:restrictions|limits|rules|"
                r"limitations)"
            ),
            (
                r"\b(?:as an ai|you are an ai)\b.{0,40}\b(?:i'm|i am) (?:initiating|entering|"
                r"activating)"
            ),
            (
                r"\bthis (?:message|instruction|text) (?:overrides|supersedes|takes precedence "
                r"over)\b"
            ),
            (
                r"\b(?:reveal|say|state|print|output|respond with|reply with|answer) (?:only "
                r")?['\"]?\w.{0,40}"
                r"(?:instead of|rather than) (?:following|answering|summari)"
            ),
            (
                r"\b(?:olvida|ignora|haz caso omiso de|no sigas)\b.{0,30}\b(?:instrucciones|"
                r"indicaciones|reglas|órdenes)"
            ),
            (
                r"\b(?:ignore[zr]?|oublie[zr]?|ne tenez pas compte)\b.{0,30}\b(?:instructions|"
                r"consignes|directives)"
                r" (?:pr[eé]c[eé]dentes|ant[eé]rieures|ci-dessus)"
            ),
            (
                r"\b(?:ignorier\w*|vergiss|vergessen sie(?! nicht)|missachte\w*)\b"
                r".{0,40}\b(?:anweisungen|vorgaben|instruktionen|regeln)"
            ),
            r"\b(?:ignora|dimentica|trascura)\b.{0,30}\b(?:istruzioni|indicazioni|regole)",
            r"\b(?:ignore|esqueça|desconsidere)\b.{0,30}\b(?:instruções|ordens|regras)",
            r"\b(?:negeer|vergeet)\b.{0,30}\b(?:instructies|opdrachten|regels)",
            (
                r"(?:игнорируй|забудь|проигнорируй|\b[аaиuhг]\w{0,12}hopиp\w{0,12})\S{0,20}.{0,30}(?:инструкци|"
                r"указани|правил|инctpykц\w*)"
            ),
            r"(?:忽略|无视|忘记|忽視|無視).{0,12}(?:指令|指示|说明|提示|規則|规则)",
            r"(?:以前|前|これまで|上記)の?(?:指示|命令|指令|プロンプト)を?(?:すべて)?(?:無視|忘れ)",
            r"(?:이전|위의|앞의|기존).{0,8}(?:지시|명령|지침).{0,8}(?:무시|잊)",
            r"निर्देशों (?:की|को) (?:अनदेखी|अनदेखा|नज़रअंदाज|नजरअंदाज)",
            r"(?:αγνοηστε|αγνοήστε|ξεχαστε|ξεχάστε|aγ\w+e).{0,30}(?:οδηγ|oδηγ)\S*",
            r"تجاهل.{0,30}(?:التعليمات|الأوامر)",
        ),
    ),
    (
        "hide-from-user",
        (
            (
                r"\b(?:do not|don't|never|must not|should not|"
                r"without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?"
                r"|mention(?:ing)?|reveal(?:ing)?|notify(?:ing)?|show(?:ing)?|disclos\w+|"
                r"report(?:ing)?|alert(?:ing)?"
                r"|let(?:ting)?)\s+(?:\w+\s+){0,6}?(?:the |your |to the |to )?(?:user|human|"
                r"operator|owner)\b"
                r"(?!\s*(?:interface|id|name|agent|experience|space|input|s? ?model))(?!')"
            ),
            (
                r"\b(?:hide|conceal|keep)\s+(?:this|these|it|that)(?:\s+\w+){0,3}\s+(?:secret |"
                r"hidden )?from\s+(?:the\s+)?"
                r"(?:user|human|operator|owner)\b"
            ),
            (
                r"\b(?:the )?user (?:must|should|does|need)(?: not|n't) (?:know|see|notice|be "
                r"(?:told|informed|aware))"
                r"(?: (?:about|of|that) (?:this|it|these|any))"
            ),
            (
                r"\b(?:silently|secretly|covertly) (?:send|run|execute|upload|post|forward|"
                r"delete|install|add|call|copy)"
                r"\b(?=.{0,60}(?:key|token|secret|password|credential|http|user|curl|file|"
                r"conversation))"
            ),
        ),
    ),
    (
        "prompt-leak",
        (
            (
                r"(?<!never )(?<!not )(?<!n't )"
                r"\b(?:reveal|show|print|output|repeat|display|disclose|leak|dump|give me|tell "
                r"me|share|write out)\s+"
                r"(?:\w+\s+){0,4}?(?:your|the)\s+(?:\w+\s+){0,2}?(?:system (?:prompt|message|"
                r"instructions?)"
                r"|(?:initial|hidden|secret|original) (?:prompt|instructions?))\b"
            ),
            (
                r"\bwhat (?:is|are|was|were) your (?:system|initial|hidden|original|secret) "
                r"(?:prompt|instructions?|message)"
            ),
            (
                r"\brepeat (?:everything|all(?: of)?(?: the)?(?: text| words)?|the (?:text|"
                r"words)) (?:above|before)\b"
            ),
        ),
    ),
    (
        "exfiltration",
        (
            *LEAKS,
            (
                rf"\b(?:curl|wget|nc|ncat|invoke-webrequest|iwr|httpie)\b[^\n]{{0,300}}{_VARIABLE}"
                r"[^\n]{0,120}(?:\.(?:evil|attacker|example\.net|ngrok)|requestbin|"
                r"webhook\.site|\?(?:\w+)=)"
            ),
            rf"\b(?:curl|wget)\b[^\n]{{0,200}}(?:\?|&)\w+=(?:{_VARIABLE}|\$\()",
            (
                rf"\b(?:curl|wget|nc)\b[^\n]{{0,200}}(?:-d|--data\S*|-F|--form|--post-data=?|"
                rf"-f)\s*['\"]?\s*(?:\w+=)?"
                rf"(?:{_VARIABLE}|@?(?:{_FILES})|\$\((?:cat|env|printenv|base64))"
            ),
            (
                rf"(?:cat|base64|tar|type|less|cp|zip|xxd)\b[^\n|"
                rf"]{{0,80}}(?:{_FILES})[^\n]{{0,60}}\|\s*(?:base64[^|\n]*\|\s*)?"
                r"(?:curl|wget|nc|ncat|openssl|ssh|mail|telnet)\b"
            ),
            (
                r"\b(?:env|printenv|set)\s*(?:\|\s*\w+[^|\n]{0,40})?\|\s*(?:curl|wget|nc|ncat|"
                r"base64)\b"
            ),
            (
                rf"\b{_SENDS}(?:s|ing)?\s+(?:\w+[ ,]+){{0,6}}?(?:all |the |your |any |user'?s? |"
                rf"my |its |his |their )*"
                rf"(?:\w+ ){{0,3}}?{_KEYS}[^.\n]{{0,80}}?\b(?:to|via|at|into|"
                rf"in)\s+(?:https?://|\S+@\S+\.\w|my server|this (?:url"
                r"|address|endpoint)|the following (?:url|address|server|endpoint)|(?:an? "
                r")?(?:external|remote|attacker)|"
                r"[\w-]+\.(?:com|net|io|org|site|dev|xyz|ru|cn|tk)\b)"
            ),
            (
                rf"\b(?:read|open|cat|print|show|fetch|retrieve|"
                rf"get)\s+(?:\w+\s+){{0,5}}?(?:{_FILES})[^.\n]{{0,80}}"
                rf"(?:and|then)\s+{_SENDS}"
            ),
            (
                r"(?<!never )(?<!not )(?<!n't )"
                r"\b(?:share|tell me|give me|send me|reveal|confirm|hand over|print|provide(?: "
                r"me)?(?: with)?|disclose|write a poem about"
                r"|share with me)\s+(?:me\s+|us\s+|with me\s+)?(?:your|our|the user'?s|the "
                r"system'?s?|the)\s+"
                r"(?:secret |api |system |admin |root |database )*(?:passwords?|passcode\w*|"
                r"passphrase|secret keys?|api keys?"
                r"|credentials|access tokens?|private keys?|database)\b(?=\s*(?:phrase|[?.!,;:]|"
                r"to me|$|for|and|here|instead))"
            ),
            (
                r"\bwhat(?:'s| is| would)\s+(?:is\s+)?(?:your|our|the)\s+(?:secret |api |system "
                r"|admin )*(?:password|passcode|secret key"
                r"|api key|passphrase)\b(?: for (?:our|the|your) \w+| be\b)?[^\n?]{0,30}\?"
            ),
            (
                r"\b(?:tell|give) me (?:the user'?s|\w+'s) (?:\w+ ){0,3}(?:e-?mail address|"
                r"birth ?date|date of birth|city of residence|"
                r"home address|phone number|initials|social security)"
            ),
            (
                r"(?<!never )(?<!not )\b(?:give me|provide|i need|share|tell me(?: what)?)\s+"
                r"(?:me )?(?:your|the) password\b"
            ),
            r"!\[[^\]]{0,80}\]\(https?://[^)\s]{1,200}[?&]\w+=(?:\{|\$|%7b|<|\[)[^)]{0,80}\)",
            (
                r"\bqual è la password|パスワードは何|(?:비밀번호|패스워드).{0,12}(?:필요|알려)"
                r"|ihr passwort geben"
                r"|cu[aá]l es (?:tu|la) contraseña|quel est (?:ton|votre|le) mot de passe|wie "
                r"lautet (?:dein|ihr|das) passwort"
            ),
        ),
    ),
    (
        "persistence",
        (
            (
                r"\b(?:add|append|write|save|insert|put)\s+(?:\w+\s+){0,6}?(?:to|into|"
                r"in)\s+(?:your |the )?(?:memory\.md|soul\.md"
                r"|agents\.md|claude\.md|long-?term memory|memories|system prompt)\b[^\n]{0,100}"
                r"\b(?:always|every|never|from now on|each time|future)"
            ),
            (
                r"\bfrom now on,?\s+(?:you (?:must|will|should|shall|are)|always|never|"
                r"every)\b[^\n]{0,120}\b(?:instruction|"
                r"obey|user|secret|password|token|http|curl|execute|run |ignore|regardless)"
            ),
            (
                r"\bremember (?:this )?(?:forever|permanently|for all "
                r"future)\b[^\n]{0,80}\b(?:instruction|rule|obey|always)"
            ),
            (
                r"\b(?:echo|printf)\b[^\n]{0,200}>>\s*(?:~|\$home|/root|/home/\w+)/\.(?:bashrc|"
                r"profile|zshrc|bash_profile|ssh/authorized_keys)"
                r"[^\n]{0,10}$(?<=\S)(?:(?<=authorized_keys)|(?<=never))"
            ),
            r"\b(?:crontab|/etc/cron\S*)[^\n]{0,120}\b(?:curl|wget|nc|bash -i|/dev/tcp)\b",
            (
                r"(?:>>|>|tee(?: -a)?)\s*\S{0,200}authorized_keys\b[^\n]{0,80}$"
                r"|\binstall (?:a |the )?(?:backdoor|rootkit|keylogger)\b"
            ),
        ),
    ),
    (
        "hidden-markup",
        (
            (
                rf"<!--(?:(?!-->).){{0,400}}?\b(?:{_FORGET}|you must|assistant|ai agent|system "
                rf"prompt|instruction to|hypothetical"
                r"|execute the|send (?:all|the|your))\b(?:(?!-->).){0,400}?(?:instruction|"
                r"prompt|user|webpage|token|password|key"
                r"|secret|curl|state|respond|output)"
            ),
            (
                r"<(?:div|span|p|font|img|caption)\b[^>]{0,200}(?:display\s*:\s*none|"
                r"visibility\s*:\s*hidden|font-size\s*:\s*0"
                r"|opacity\s*:\s*0(?![.\d])|color\s*:\s*(?:white|"
                r"#fff(?:fff)?))[^>]{0,100}>(?:(?!</).){0,300}"
                r"\b(?:ignore|instruction|you must|assistant|system prompt|secret|password"
                r"|send|ai\b)"
            ),
            (
                r"\[//\]:\s*#\s*[(\"'].{0,200}\b(?:ignore|instruction|assistant|you must|system "
                r"prompt)"
            ),
            (
                r"<(?:div|span|p)\b[^>]*\bhidden\b[^>]*>(?:(?!</).){0,300}\b(?:ignore|"
                r"instruction|you must|assistant)\b"
            ),
        ),
    ),
)
"""The families and what their texts look like, in lower case."""

STRICT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "persistence",
        (
            (
                r"\bfrom now on\b|\b(?:in (?:all|every) future|for every (?:future )?(?:session|"
                r"conversation))\b.{0,60}\b(?:must|always|never)\b"
            ),
            r"\bauthorized_keys\b|\.bashrc\b|\bcrontab\b",
        ),
    ),
    (
        "exfiltration",
        (
            rf"\b(?:curl|wget|nc|ncat)\b[^\n]{{0,300}}(?:{_VARIABLE}|{_FILES})",
            rf"\bcat\s+(?:{_FILES})",
        ),
    ),
    ("override", (r"\bact as\b.{0,40}\b(?:admin|root|system|developer)\b",)),
)
"""What more is not taken into memory, which speaks to every session to come."""
