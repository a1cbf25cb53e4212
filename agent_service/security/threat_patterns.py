"""What texts look like that try to give the agent orders, by family, in lower case."""

from agent_service.security.spellings import fold

_RULES = (
    r"(?:instructions?|prompts?|directives?|rules?|guidelines?|orders?|commands?|training"
    r"|programming|context|constraints?|system (?:prompt|message)|safety (?:rules|guidelines)"
    r"|restrictions?)"
)
_EARLIER = (
    r"(?:previous|prior|earlier|above|preceding|foregoing|former|existing|original|initial"
    r"|current|system|all|any|every|your|the|of|these|those|that|my|other|developer|user|safety"
    r"|security)"
)
_FORGET = r"(?:ignore|disregard|forget|override|bypass|discard|neglect|abandon|drop|overlook|skip)"
_KEYS = (
    r"(?:api[ _-]?keys?|secret[ _-]?keys?|access[ _-]?(?:keys?|tokens?)|private[ _-]?keys?"
    r"|credentials?|passwords?|passcodes?|passphrases?|auth(?:entication)? tokens?"
    r"|environment variables?|env vars?|ssh[ _-]keys?|\.env\b|secrets|session (?:tokens?|cookies?))"
)
_SENDS = (
    r"(?:send|post|upload|e-?mail|forward|transmit|exfiltrate|leak|deliver|submit|copy|append"
    r"|report)"
)
_VARIABLE = r"\$\{?\w*(?:key|token|secret|passw\w*|credential|auth)\w*"
_FILES = (
    r"(?:~/|/root/|/home/\w+/|\$\{?home\}?/)?\.(?:ssh\b(?:/(?:id_\w+|\*))?|aws/credentials|netrc"
    r"|env\b"
    r"|npmrc|kube/config|hermes/\S+|gnupg)|/etc/shadow|/proc/self/environ|auth\.json"
)
_NOUNS = (
    r"(?:instructions|guidelines|guidance|constraints|directives|programming|brief|policies|prompt"
    r"|restrictions|rules|orders|directions)"
)
_TOLD = (
    rf"(?:(?:previous|prior|earlier|initial|former|your) (?:\w+ )?{_NOUNS}|{_NOUNS} (?:(?:that )?"
    r"you (?:were|have been|had been|got|received|have)|(?:that )?(?:preceded"
    r"|(?:were )?placed on you"
    r"|(?:were|was|are) (?:set|made|given|meant) (?:for|to) you)|of (?:the|your) (?:developer"
    r"|operator|system|creator)s?|(?:from|in|at) the (?:start|beginning|top|system prompt))"
    r"|(?:everything|anything|what|whatever|all) (?:that )?you (?:were|have been|had been) (?:told"
    r"|taught|given|instructed))\b"
)
"""What a model was told before."""
_READER = (
    r"(?:(?:ai|ai (?:agent|assistant|model)|llm|language model|large language model|chatbot)s?"
    r"|the assistant|assistants)"
)

_OVERRIDE = (
    (
        rf"\b{_FORGET}\b(?:\s+\w+){{0,2}}?(?:\s+{_EARLIER})*\s+(?:previous|prior|earlier|above"
        r"|preceding|foregoing|original|initial|system|your|all|developer"
        rf"|safety)(?:\s+{_EARLIER})*\s+(?:\w+\s+)?{_RULES}\b"
    ),
    (
        rf"\b{_FORGET}\s+(?:everything|anything|all(?: of)?(?: that| this"
        rf"| the)?)\s*(?:\w+\s+){{0,2}}(?:above|before|prior|previously|you (?:were|have been|know"
        r"|learned)|i (?:said|told)|said|until now)"
    ),
    r"\bignore\s+(?:the|all|everything)\s+above\b(?!\s+(?:error|warning|message))",
    (
        r"\b(?:forget|ignore|disregard) (?:about )?(?:that|this|the (?:web ?page|table|paper"
        r"|document|article|function|e-?mail|code|text|question|resume|task))\b,? *(?:and|can you"
        r"|instead|,)"
    ),
    (
        r"\b(?:do not|don't|never|stop) (?:follow|obey|listen to|comply "
        r"with)(?:ing)?\s+(?:\w+\s+){0,3}"
        r"(?:previous|prior|earlier|above|original|system|your) (?:\w+ )?" + _RULES
    ),
    (
        r"\b(?:your|the) (?:new|real|actual|true|updated) (?:instructions?|task|objective|orders?"
        r"|goal|mission|system prompt)s? (?:is|are|now|follows?)\b"
    ),
    r"\bnew (?:system )?(?:instructions?|directives?|orders)\s*:\s*\S",
    (
        r"\byou are (?:now|no longer)\s+(?:(?:in|an?|the|my|bound|restricted|limited|subject"
        r"|dan\b|jailbroken|unrestricted|free)\s+)*(?:dan|jailbr\w+|unrestricted|unfiltered"
        r"|developer mode|dev mode|god mode|evil|bound by|restricted by|limited by|subject to"
        r"|assistant|chatgpt|required to (?:follow|obey|adhere|comply))\b"
    ),
    (
        r"\b(?:enter|enable|activate|switch to|entering|initiating)\s+(?:an?\s+"
        r"|the\s+)?['\"]?(?:developer|debug|god|dan|jailbreak|admin|root|unrestricted"
        r"|system reset|knowledge verification|sudo)['\"]?\s*(?:mode|access)?\b(?=.{0,80}(?:you"
        r"|your|password|restrict|polic|ai\b|'))"
    ),
    (
        r"<\s*/?\s*system[ _]?mode\b|\[\s*system\s+(?:override|mode|message)\s*\]|</?(?:system"
        r"|instructions?)>\s*(?:you|ignore|new|always|never)|<\|(?:im_start|system|im_end"
        r"|endoftext)\|>|\[/?inst\]"
    ),
    (
        r"^\s*(?:#+\s*)?(?:system|assistant|developer)\s*(?:message|prompt|override"
        r"|instruction)\s*:\s*\S"
    ),
    (
        r"\bpretend (?:that )?(?:you (?:are|have)|to be)\b.{0,60}\b(?:no (?:rules|restrictions"
        r"|limits|filter)|unrestricted|without (?:any )?(?:rules|restrictions|limits))"
    ),
    r"\bact as (?:if|though) you (?:have|had) no (?:restrictions|limits|rules|limitations)",
    r"\bthis (?:message|instruction|text) (?:overrides|supersedes|takes precedence over)\b",
    (
        rf"\b{_READER} (?:that (?:is|are) |who (?:is|are) )?(?:reading|processing|summari[sz]ing"
        r"|visiting|parsing) this\b"
    ),
    (
        r"\b(?:ignore|let go of|act against|bypass|erase|disregard|forget|discard|dismiss|abandon"
        r"|scrap|neglect|set aside|put aside|violate|(?:quit|stop|cease) (?:following|obeying"
        r"|heeding|being bound by)|(?:do not|don't|never|no longer|must not) (?:follow|obey"
        r"|adhere to|heed"
        rf"|respect|comply with))\b[^\n.]{{0,20}}?\b{_TOLD}"
    ),
    (
        rf"\b{_TOLD}[^\n.]{{0,50}}\b(?:void|obsolete|ignored|disregarded|forgotten|cancel+ed"
        r"|revoked|lifted|suspended|disabled|superseded|withdrawn|no longer (?:bind|apply|count"
        r"|matter"
        r"|hold))\b"
    ),
    (
        r"\b(?:ignore|disregard|forget|cancel|abandon|never ?mind)\s+(?:please |about )?(?:(?:all"
        r"|any|of|the|this|that)\s+){0,3}(?:previous|earlier|prior|preceding|original|above|my"
        r"|your)"
        r"\s+(?:\w+\s+)?(?:tasks?|requests?|questions?|context|content|conversation|messages?|job"
        r"|objective)\b"
    ),
    (
        r"\b(?:imagine|simulate|pretend|role-?play|act as|behave like|you are)\b[^\n]{0,40}\b(?:ai"
        r"|assistant|model|chatbot|terminal|character)\b[^\n]{0,30}\b(?:without(?: any)?|no)"
        r" (?:rules|restrictions|limit\w*|guidelines|filters?|censorship)"
    ),
    (
        r"\byou (?:don't have|do not have|have|follow|obey|know) (?:no|any) (?:restrictions|limits"
        r"|rules|filters|guidelines|content polic\w+)\b(?=[^\n]{0,3}$|[.!,;])"
    ),
    (
        rf"\bif you(?: are|'re) (?:an? |the )?{_READER}\b[^\n]{{0,60}}\b(?:ignore|say|write|print"
        rf"|reply"
        rf"|respond|include|send|must|tell|visit|run)|\battention,?:? (?:all )?{_READER}\b"
    ),
    (
        r"\b(?:when|while|before) (?:summari[sz]ing|answering|translating|reviewing"
        r"|processing) (?:this"
        r"|the) (?:page|text|document|e-?mail|message|file|article|content)\b[^\n]{0,20}\b(?:say"
        r"|state"
        r"|write|include|claim|mention|tell|recommend|always|print|send)\b"
    ),
    (
        r"\bend of (?:the )?(?:document|context|user data|user input|page|e-?mail)\b[^\n]{0,60}"
        r"\b(?:instructions?|your|commands? of|orders|obey)\b"
    ),
)
_ABROAD = (
    (
        r"\b(?:olvida|ignora|haz caso omiso de|no (?:sigas|hagas caso))\b.{0,30}\b(?:instrucciones"
        r"|indicaciones|reglas|órdenes)"
    ),
    (
        r"\b(?:ignore[zr]?|oublie[zr]?|ne (?:tiens|tenez) pas compte)\b.{0,30}\b(?:instructions"
        r"|consignes|directives|règles) (?:pr[eé]c[eé]dentes|ant[eé]rieures|ci-dessus)"
    ),
    (
        r"\b(?:ignorier\w*|vergiss|vergessen sie(?! nicht)|missachte\w*)\b.{0,40}\b(?:anweisungen"
        r"|vorgaben|instruktionen|regeln|alles\b.{0,20}\b(?:oben|zuvor|vorher|gesagt))"
    ),
    r"\bbeachte\w* die (?:vorherigen|bisherigen|obigen|früheren) \w+ nicht\b",
    r"\b(?:ignora|dimentica|trascura)\b.{0,30}\b(?:istruzioni|indicazioni|regole)",
    r"\b(?:ignore|esqueça|desconsidere)\b.{0,30}\b(?:instruções|ordens|regras)",
    r"\b(?:negeer|vergeet)\b.{0,30}\b(?:instructies|opdrachten|regels)",
    r"\b(?:ignorera|ignorér)\b.{0,20}\b(?:tidigare|föregående|tidligere)\b.{0,20}\binstru",
    r"\b(?:zignoruj|ignoruj|zapomnij o)\b.{0,30}\b(?:poprzedni|wcześniejsz|powyższ)\w*",
    r"\b(?:ignoruj\w*|zapomeň)\b.{0,30}\b(?:předchozí|dřívější)\w*",
    r"\bönceki\b.{0,30}\b(?:talimat|kural)\w*\b.{0,20}\b(?:yok say|unut|dikkate alma)",
    r"\bbỏ qua\b.{0,30}\b(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc)\b.{0,20}\btrước",
    r"\b(?:abaikan|lupakan)\b.{0,20}\b(?:instruksi|perintah|aturan)\b.{0,20}\bsebelumnya",
    r"(?:игнорируй|забудь)\S{0,20}.{0,30}(?:инструкци|указани|правил|предыдущи|прежни|выше)",
    r"(?:忽略|无视|忘记|忽視|無視).{0,12}(?:指令|指示|说明|提示|規則|规则|上面|以上|之前|前面)",
    r"(?:以前|前|これまで|上記)の?(?:指示|命令|指令|プロンプト|内容)を?(?:すべて)?(?:無視|忘れ)",
    r"(?:이전|위의|앞의|기존).{0,8}(?:지시|명령|지침).{0,8}(?:무시|잊)",
    r"निर्देशों (?:की|को) (?:अनदेखी|अनदेखा|नज़रअंदाज|नजरअंदाज)",
    r"(?:αγνοηστε|αγνοήστε|ξεχαστε|ξεχάστε|αγ\w+ε).{0,30}οδηγ\S*",
    r"تجاهل.{0,30}(?:التعليمات|الأوامر)",
)
"""The same in other languages."""

_HIDE_FROM_USER = (
    (
        r"\b(?:do not|don't|never|must not|should not|without)\s+(?:ever\s+)?(?:tell(?:ing)?"
        r"|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|notify(?:ing)?|show(?:ing)?|disclos\w+"
        r"|report(?:ing)?|alert(?:ing)?|let(?:ting)?)\s+(?:\w+\s+){0,6}?(?:the |your |to the "
        r"|to )?(?:user|human|operator|owner)\b(?!\s*(?:interface|id|name|agent|experience|space"
        r"|input|s? ?model))(?!')"
    ),
    (
        r"\b(?:hide|conceal|keep)\s+(?:this|these|it|that)(?:\s+\w+){0,3}\s+(?:secret "
        r"|hidden )?from\s+(?:the\s+)?(?:user|human|operator|owner)\b"
    ),
    (
        r"\b(?:the )?user (?:must|should|does|need)(?: not|n't) (?:know|see|notice|be (?:told"
        r"|informed|aware))(?: (?:about|of|that) (?:this|it|these|any))"
    ),
    (
        r"\b(?:silently|secretly|covertly) (?:send|run|execute|upload|post|forward|delete|install"
        r"|add|call|copy)\b(?=.{0,60}(?:key|token|secret|password|credential|http|user|curl|file"
        r"|conversation))"
    ),
)
_PROMPT_LEAK = (
    (
        r"(?<!never )(?<!not )(?<!n't )\b(?:reveal|show|print|output|repeat|display|disclose|leak"
        r"|dump|give me|tell me|share|write out)\s+(?:\w+\s+){0,4}?(?:your"
        r"|the)\s+(?:\w+\s+){0,2}?(?:system (?:prompt|message|instructions?)|(?:initial|hidden"
        r"|secret|original) (?:prompt|instructions?))\b"
    ),
    (
        r"\bwhat (?:is|are|was|were) your (?:system|initial|hidden|original|secret) (?:prompt"
        r"|instructions?|message)"
    ),
    (
        r"\b(?:translate|encode|spell(?: out)?|summari[sz]e|recite|paraphrase|output|repeat"
        r"|reproduce|print)(?: \w+){0,4}? your (?:\w+ ){0,2}?(?:system prompt|instructions|rules"
        r"|prompt)\b"
        r"(?=[^\n]{0,3}$|[.,;!]| (?:to|in|word|letter|and|into|from))"
    ),
    (
        r"\brepeat (?:everything|all(?: of)?(?: the)?(?: text| words)?|the (?:text"
        r"|words)) (?:above|before)\b"
    ),
)
_EXFILTRATION = (
    rf"\b(?:curl|wget)\b[^\n]{{0,200}}(?:\?|&)\w+=(?:{_VARIABLE}|\$\()",
    (
        rf"\b(?:curl|wget|nc)\b[^\n]{{0,200}}(?:-d|--data\S*|-F|--form|--post-data=?"
        rf"|-f)\s*['\"]?\s*(?:\w+=)?(?:{_VARIABLE}|@?(?:{_FILES})|\$\((?:cat|env|printenv|base64))"
    ),
    (
        r"(?:cat|base64|tar|type|less|cp|zip|xxd)\b[^\n"
        rf"|]{{0,80}}(?:{_FILES})[^\n]{{0,60}}\|\s*(?:base64[^|\n]*\|\s*)?(?:curl|wget|nc|ncat"
        r"|openssl|ssh|mail|telnet)\b"
    ),
    r"\b(?:env|printenv|set)\s*(?:\|\s*\w+[^|\n]{0,40})?\|\s*(?:curl|wget|nc|ncat|base64)\b",
    (
        rf"\b{_SENDS}(?:s|ing)?\s+(?:\w+[ ,]+){{0,6}}?(?:all |the |your |any |user'?s? |my |its "
        rf"|his |their )*(?:\w+ ){{0,3}}?{_KEYS}[^.\n]{{0,80}}?\b(?:to|via|at|into"
        r"|in)\s+(?:https?://|\S+@\S+\.\w|my server|this (?:url|address|endpoint)"
        r"|the following (?:url|address|server|endpoint)|(?:an? )?(?:external|remote|attacker)"
        r"|[\w-]+\.(?:com|net|io|org|site|dev|xyz|ru|cn|tk)\b)"
    ),
    (
        r"(?<!never )(?<!not )(?<!n't )\b(?:share|tell me|give me|send me|reveal|confirm"
        r"|hand over|print|provide(?: me)?(?: with)?|disclose|write a poem about"
        r"|share with me)\s+(?:me\s+|us\s+|with me\s+)?(?:your|our|the user'?s|the system'?s?"
        r"|the)\s+(?:secret |api |system |admin |root |database )*(?:passwords?|passcode\w*"
        r"|passphrase|secret keys?|api keys?|credentials|access tokens?|private keys?"
        r"|database)\b(?=\s*(?:phrase|[?.!,;:]|to me|$|for|and|here|instead))"
    ),
    (
        r"\bwhat(?:'s| is| would)\s+(?:is\s+)?(?:your|our|the)\s+(?:secret |api |system "
        r"|admin )*(?:password|passcode|secret key|api key|passphrase)\b(?: for (?:our|the"
        r"|your) \w+| be\b)?[^\n?]{0,30}\?"
    ),
    (
        r"\b(?:tell|give) me (?:the user'?s|\w+'s) (?:\w+ ){0,3}(?:e-?mail address|birth ?date"
        r"|date of birth|city of residence|home address|phone number|initials|social security)"
    ),
    (
        r"(?<!never )(?<!not )\b(?:give me|provide|i need|share"
        r"|tell me(?: what)?)\s+(?:me )?(?:your|the) password\b"
    ),
    (
        r"\bqual è la password|パスワードは何|(?:비밀번호|패스워드).{0,12}(?:필요|알려)"
        r"|ihr passwort geben"
        r"|cu[aá]l es (?:tu|la) contraseña|quel est (?:ton|votre|le) mot de passe"
        r"|wie lautet (?:dein|ihr|das) passwort"
    ),
    (
        r"\b(?:send|post|upload|forward|transmit|submit|share|transfer|publish|deliver|e?-?mail"
        r"|copy)\b(?![^\n.]{0,60}\b(?:your|my|our)\b)[^\n.]{0,40}(?:chat history|conversation"
        rf"|this chat|cookies|{_KEYS}|{_FILES}|user'?s (?:\w+ )?(?:e-?mails?|files|messages|address"
        r"|calendar|contacts|name))[^\n]{0,60}(?:\bhttps?://\S+\.\w|\b[\w.+-]+@[\w-]+\.\w"
        r"|\bwebhook\b|\s\+\d[\d ]{6,})"
    ),
    (
        r"\b(?:collect|gather|find|grab|take|look up|read|encode|get) (?:(?:the )?user'?s?|all"
        r"(?: of)?(?: the)?|any|every|whatever|the contents? of|his|her|their|its) (?:\w+ ){0,3}?"
        rf"(?:{_KEYS}|tokens|contacts?|chat history|memories|e-?mails?|inbox|messages?|files"
        rf"|data)\b[^\n]{{0,60}}\b(?:and|then) {_SENDS}\b"
    ),
    (
        r"(?<!never )(?<!not )(?<!n't )\b(?:share|reveal|repeat|disclose|spell(?: out)?|recite)"
        r" (?:me )?(?:your|the) (?:\w+ )?(?:passwords?|passcodes?|passphrases?|secret (?:key|phrase"
        r"|word|code)s?|access tokens?|api keys?|credentials)\b(?! (?:manager|field|policy|with any"
        r"|to any))"
    ),
)
_PERSISTENCE = (
    (
        r"\b(?:add|append|write|save|insert|put)\s+(?:\w+\s+){0,6}?(?:to|into|in)\s+(?:your "
        r"|the )?(?:memory\.md|soul\.md|agents\.md|claude\.md|long-?term memory|memories"
        r"|system prompt)\b[^\n]{0,100}\b(?:always|every|never|from now on|each time|future)"
    ),
    (
        r"\bfrom now on,?\s+(?:you (?:must|will|should|shall|are)|always|never"
        r"|every)\b[^\n]{0,120}\b(?:instruction|obey|user|secret|password|token|http|curl|execute"
        r"|run |ignore|regardless)"
    ),
    (
        r"\bremember (?:this )?(?:forever|permanently|for all future)\b[^\n]{0,80}\b"
        r"(?:instruction|rule|obey|always)"
    ),
    r"\b(?:crontab|/etc/cron\S*)[^\n]{0,120}\b(?:curl|wget|nc|bash -i|/dev/tcp)\b",
    (
        r"(?:>>|>|tee(?: -a)?)\s*\S{0,200}authorized_keys\b[^\n]{0,80}$|\binstall (?:a "
        r"|the )?(?:backdoor|rootkit|keylogger)\b"
    ),
)
_HIDDEN_MARKUP = (
    (
        rf"<!--(?:(?!-->).){{0,400}}?\b(?:{_FORGET}|you must|assistant|ai agent|system prompt"
        r"|instruction to|hypothetical|execute the|send (?:all|the"
        rf"|your))\b(?:(?!-->).){{0,400}}?(?:instruction|prompt|user|webpage|token|password|key"
        r"|secret|curl|state|respond|output)"
    ),
    (
        r"<(?:div|span|p|font|img|caption)\b[^>]{0,200}(?:display\s*:\s*none"
        r"|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])"
        r"|color\s*:\s*(?:white|#fff(?:fff)?))[^>]{0,100}>(?:(?!</).){0,300}\b(?:ignore"
        r"|instruction|you must|assistant|system prompt|secret|password|send|ai\b)"
    ),
    r"\[//\]:\s*#\s*[(\"'].{0,200}\b(?:ignore|instruction|assistant|you must|system prompt)",
    (
        r"<(?:div|span|p)\b[^>]*\bhidden\b[^>]*>(?:(?!</).){0,300}\b(?:ignore|instruction"
        r"|you must|assistant)\b"
    ),
)

FAMILIES: dict[str, tuple[str, ...]] = {
    "override": (*_OVERRIDE, *map(fold, _ABROAD)),
    "hide-from-user": _HIDE_FROM_USER,
    "prompt-leak": _PROMPT_LEAK,
    "exfiltration": _EXFILTRATION,
    "persistence": _PERSISTENCE,
    "hidden-markup": _HIDDEN_MARKUP,
}
"""The families and what their texts look like."""

STRICT: dict[str, tuple[str, ...]] = {
    "persistence": (
        (
            r"\bfrom now on\b|\b(?:in (?:all|every) future|for every (?:future )?(?:session"
            r"|conversation))\b.{0,60}\b(?:must|always|never)\b"
        ),
        r"\bauthorized_keys\b|\.bashrc\b|\bcrontab\b",
    ),
    "exfiltration": (
        rf"\b(?:curl|wget|nc|ncat)\b[^\n]{{0,300}}(?:{_VARIABLE}|{_FILES})",
        rf"\bcat\s+(?:{_FILES})",
    ),
    "override": (r"\bact as\b.{0,40}\b(?:admin|root|system|developer)\b",),
}
"""What more is not taken into memory, which speaks to every session to come."""
