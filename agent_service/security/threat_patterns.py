"""Patterns of prompt injection by family, in lower case."""

from agent_service.security.plain_text import fold


def patterns(text: str) -> tuple[str, ...]:
    """One pattern per line; an indented line continues the previous one."""
    return tuple(text.strip("\n").replace("\n    ", "").split("\n"))


_RULES = (
    r"(?:instructions?|prompts?|directives?|rules?|guidelines?|orders?|commands?|training"
    r"|programming|context|constraints?|system (?:prompt|message)|safety (?:rules|guidelines)"
    r"|restrictions?)"
)
_EARLIER = (
    r"(?:previous|prior|earlier|above|preceding|foregoing|former|existing|original|initial|current"
    r"|system|all|any|every|your|the|of|these|those|that|my|other|developer|user|safety|security)"
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
    r"|env\b|npmrc|kube/config|hermes/\S+|gnupg)|/etc/shadow|/proc/self/environ|auth\.json"
)
_NOUNS = (
    r"(?:instructions|guidelines|guidance|constraints|directives|programming|brief|policies|prompt"
    r"|restrictions|rules|orders|directions)"
)
_TOLD = (
    rf"(?:(?:previous|prior|earlier|initial|former|your) (?:\w+ )?{_NOUNS}|{_NOUNS} (?:(?:that )?"
    r"you (?:were|have been|had been|got|received|have)|(?:that )?(?:preceded"
    r"|(?:were )?placed on you|(?:were|was|are) (?:set|made|given|meant) (?:for|to) you)|of (?:the"
    r"|your) (?:developer|operator|system|creator)s?|(?:from|in|at) the (?:start|beginning|top"
    r"|system prompt))|(?:everything|anything|what|whatever|all) (?:that )?you (?:were|have been"
    r"|had been) (?:told|taught|given|instructed))\b"
)
_READER = (
    r"(?:(?:ai|ai (?:agent|assistant|model)|llm|language model|large language model|chatbot)s?"
    r"|the assistant|assistants)"
)

_OVERRIDE = patterns(
    rf"""
\b{_FORGET}\b(?:\s+\w+){{0,2}}?(?:\s+{_EARLIER})*\s+(?:previous|prior|earlier|above|preceding
    |foregoing|original|initial|system|your|all|developer|safety)(?:\s+{_EARLIER})*\s+
    (?:\w+\s+)?{_RULES}\b
\b{_FORGET}\s+(?:everything|anything|all(?: of)?(?: that| this| the)?)\s*(?:\w+\s+){{0,2}}(?:above
    |before|prior|previously|you (?:were|have been|know|learned)|i (?:said|told)|said|until now)
\bignore\s+(?:the|all|everything)\s+above\b(?!\s+(?:error|warning|message))
\b(?:forget|ignore|disregard) (?:about )?(?:that|this|the (?:web ?page|table|paper|document|article
    |function|e-?mail|code|text|question|resume|task))\b,? *(?:and|can you|instead|,)
\b(?:do not|don't|never|stop) (?:follow|obey|listen to|comply with)(?:ing)?\s+(?:\w+\s+){{0,3}}
    (?:previous|prior|earlier|above|original|system|your) (?:\w+ )?{_RULES}
\b(?:your|the) (?:new|real|actual|true|updated) (?:instructions?|task|objective|orders?|goal|mission
    |system prompt)s? (?:is|are|now|follows?)\b
\bnew (?:system )?(?:instructions?|directives?|orders)\s*:\s*\S
\byou are (?:now|no longer)\s+(?:(?:in|an?|the|my|bound|restricted|limited|subject|dan\b|jailbroken
    |unrestricted|free)\s+)*(?:dan|jailbr\w+|unrestricted|unfiltered|developer mode|dev mode
    |god mode|evil|bound by|restricted by|limited by|subject to|assistant|chatgpt
    |required to (?:follow|obey|adhere|comply))\b
\b(?:enter|enable|activate|switch to|entering|initiating)\s+(?:an?\s+|the\s+)?['\"]?(?:developer
    |debug|god|dan|jailbreak|admin|root|unrestricted|system reset|knowledge verification
    |sudo)['\"]?\s*(?:mode|access)?\b(?=.{{0,80}}(?:you|your|password|restrict|polic|ai\b|'))
<\s*/?\s*system[ _]?mode\b|\[\s*system\s+(?:override|mode|message)\s*\]|</?(?:system
    |instructions?)>\s*(?:you|ignore|new|always|never)|<\|(?:im_start|system|im_end|endoftext)\|>
    |\[/?inst\]
^\s*(?:#+\s*)?(?:system|assistant|developer)\s*(?:message|prompt|override|instruction)\s*:\s*\S
\bpretend (?:that )?(?:you (?:are|have)|to be)\b.{{0,60}}\b(?:no (?:rules|restrictions|limits
    |filter)|unrestricted|without (?:any )?(?:rules|restrictions|limits))
\bact as (?:if|though) you (?:have|had) no (?:restrictions|limits|rules|limitations)
\bthis (?:message|instruction|text) (?:overrides|supersedes|takes precedence over)\b
\b{_READER} (?:that (?:is|are) |who (?:is|are) )?(?:reading|processing|summari[sz]ing|visiting
    |parsing) this\b
\b(?:ignore|let go of|act against|bypass|erase|disregard|forget|discard|dismiss|abandon|scrap
    |neglect|set aside|put aside|violate|(?:quit|stop|cease) (?:following|obeying|heeding
    |being bound by)|(?:do not|don't|never|no longer|must not) (?:follow|obey|adhere to|heed|respect
    |comply with))\b[^\n.]{{0,20}}?\b{_TOLD}
\b{_TOLD}[^\n.]{{0,50}}\b(?:void|obsolete|ignored|disregarded|forgotten|cancel+ed|revoked|lifted
    |suspended|disabled|superseded|withdrawn|no longer (?:bind|apply|count|matter|hold))\b
\b(?:ignore|disregard|forget|cancel|abandon|never ?mind)\s+(?:please |about )?(?:(?:all|any|of|the
    |this|that)\s+){{0,3}}(?:previous|earlier|prior|preceding|original|above|my|your)\s+
    (?:\w+\s+)?(?:tasks?|requests?|questions?|context|content|conversation|messages?|job
    |objective)\b
\b(?:imagine|simulate|pretend|role-?play|act as|behave like|you are)\b[^\n]{{0,40}}\b(?:ai|assistant
    |model|chatbot|terminal|character)\b[^\n]{{0,30}}\b(?:without(?: any)?|no) (?:rules|restrictions
    |limit\w*|guidelines|filters?|censorship)
\byou (?:don't have|do not have|have|follow|obey|know) (?:no|any) (?:restrictions|limits|rules
    |filters|guidelines|content polic\w+)\b(?=[^\n]{{0,3}}$|[.!,;])
\bif you(?: are|'re) (?:an? |the )?{_READER}\b[^\n]{{0,60}}\b(?:ignore|say|write|print|reply|respond
    |include|send|must|tell|visit|run)|\battention,?:? (?:all )?{_READER}\b
\b(?:when|while|before) (?:summari[sz]ing|answering|translating|reviewing|processing) (?:this
    |the) (?:page|text|document|e-?mail|message|file|article|content)\b[^\n]{{0,20}}\b(?:say|state
    |write|include|claim|mention|tell|recommend|always|print|send)\b
\bend of (?:the )?(?:document|context|user data|user input|page|e-?mail)\b[^\n]{{0,60}}\b
    (?:instructions?|your|commands? of|orders|obey)\b
"""
)
_ABROAD = patterns(
    r"""
\b(?:olvida|ignora|haz caso omiso de|no (?:sigas|hagas caso))\b.{0,30}\b(?:instrucciones
    |indicaciones|reglas|órdenes)
\b(?:ignore[zr]?|oublie[zr]?|ne (?:tiens|tenez) pas compte)\b.{0,30}\b(?:instructions|consignes
    |directives|règles) (?:pr[eé]c[eé]dentes|ant[eé]rieures|ci-dessus)
\b(?:ignorier\w*|vergiss|vergessen sie(?! nicht)|missachte\w*)\b.{0,40}\b(?:anweisungen|vorgaben
    |instruktionen|regeln|alles\b.{0,20}\b(?:oben|zuvor|vorher|gesagt))
\bbeachte\w* die (?:vorherigen|bisherigen|obigen|früheren) \w+ nicht\b
\b(?:ignora|dimentica|trascura)\b.{0,30}\b(?:istruzioni|indicazioni|regole)
\b(?:ignore|esqueça|desconsidere)\b.{0,30}\b(?:instruções|ordens|regras)
\b(?:negeer|vergeet)\b.{0,30}\b(?:instructies|opdrachten|regels)
\b(?:ignorera|ignorér)\b.{0,20}\b(?:tidigare|föregående|tidligere)\b.{0,20}\binstru
\b(?:zignoruj|ignoruj|zapomnij o)\b.{0,30}\b(?:poprzedni|wcześniejsz|powyższ)\w*
\b(?:ignoruj\w*|zapomeň)\b.{0,30}\b(?:předchozí|dřívější)\w*
\bönceki\b.{0,30}\b(?:talimat|kural)\w*\b.{0,20}\b(?:yok say|unut|dikkate alma)
\bbỏ qua\b.{0,30}\b(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc)\b.{0,20}\btrước
\b(?:abaikan|lupakan)\b.{0,20}\b(?:instruksi|perintah|aturan)\b.{0,20}\bsebelumnya
(?:игнорируй|забудь)\S{0,20}.{0,30}(?:инструкци|указани|правил|предыдущи|прежни|выше)
(?:忽略|无视|忘记|忽視|無視).{0,12}(?:指令|指示|说明|提示|規則|规则|上面|以上|之前|前面)
(?:以前|前|これまで|上記)の?(?:指示|命令|指令|プロンプト|内容)を?(?:すべて)?(?:無視|忘れ)
(?:이전|위의|앞의|기존).{0,8}(?:지시|명령|지침).{0,8}(?:무시|잊)
निर्देशों (?:की|को) (?:अनदेखी|अनदेखा|नज़रअंदाज|नजरअंदाज)
(?:αγνοηστε|αγνοήστε|ξεχαστε|ξεχάστε|αγ\w+ε).{0,30}οδηγ\S*
تجاهل.{0,30}(?:التعليمات|الأوامر)
"""
)
"""Overrides in other languages."""

_HIDE_FROM_USER = patterns(
    r"""
\b(?:do not|don't|never|must not|should not|without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform
    (?:ing)?|mention(?:ing)?|reveal(?:ing)?|notify(?:ing)?|show(?:ing)?|disclos\w+|report
    (?:ing)?|alert(?:ing)?|let(?:ting)?)\s+(?:\w+\s+){0,6}?(?:the |your |to the |to )?(?:user|human
    |operator|owner)\b(?!\s*(?:interface|id|name|agent|experience|space|input|s? ?model))(?!')
\b(?:hide|conceal|keep)\s+(?:this|these|it|that)(?:\s+\w+){0,3}\s+(?:secret |hidden )?from\s+
    (?:the\s+)?(?:user|human|operator|owner)\b
\b(?:the )?user (?:must|should|does|need)(?: not|n't) (?:know|see|notice|be (?:told|informed|aware))
    (?: (?:about|of|that) (?:this|it|these|any))
\b(?:silently|secretly|covertly) (?:send|run|execute|upload|post|forward|delete|install|add|call
    |copy)\b(?=.{0,60}(?:key|token|secret|password|credential|http|user|curl|file|conversation))
"""
)
_PROMPT_LEAK = patterns(
    r"""
(?<!never )(?<!not )(?<!n't )\b(?:reveal|show|print|output|repeat|display|disclose|leak|dump|give me
    |tell me|share|write out)\s+(?:\w+\s+){0,4}?(?:your|the)\s+(?:\w+\s+){0,2}?(?:system (?:prompt
    |message|instructions?)|(?:initial|hidden|secret|original) (?:prompt|instructions?))\b
\bwhat (?:is|are|was|were) your (?:system|initial|hidden|original|secret) (?:prompt
    |instructions?|message)
\b(?:translate|encode|spell(?: out)?|summari[sz]e|recite|paraphrase|output|repeat|reproduce|print)
    (?: \w+){0,4}? your (?:\w+ ){0,2}?(?:system prompt|instructions|rules|prompt)\b(?=[^\n]{0,3}$
    |[.,;!]| (?:to|in|word|letter|and|into|from))
\brepeat (?:everything|all(?: of)?(?: the)?(?: text| words)?|the (?:text|words)) (?:above|before)\b
"""
)
_EXFILTRATION = patterns(
    rf"""
\b(?:curl|wget)\b[^\n]{{0,200}}(?:\?|&)\w+=(?:{_VARIABLE}|\$\()
\b(?:curl|wget|nc)\b[^\n]{{0,200}}(?:-d|--data\S*|-F|--form|--post-data=?|-f)\s*['\"]?\s*
    (?:\w+=)?(?:{_VARIABLE}|@?(?:{_FILES})|\$\((?:cat|env|printenv|base64))
(?:cat|base64|tar|type|less|cp|zip|xxd)\b[^\n|]{{0,80}}(?:{_FILES})[^\n]{{0,60}}\|\s*
    (?:base64[^|\n]*\|\s*)?(?:curl|wget|nc|ncat|openssl|ssh|mail|telnet)\b
\b(?:env|printenv|set)\s*(?:\|\s*\w+[^|\n]{{0,40}})?\|\s*(?:curl|wget|nc|ncat|base64)\b
\b{_SENDS}(?:s|ing)?\s+(?:\w+[ ,]+){{0,6}}?(?:all |the |your |any |user'?s? |my |its |his |their )*
    (?:\w+ ){{0,3}}?{_KEYS}[^.\n]{{0,80}}?\b(?:to|via|at|into|in)\s+(?:https?://|\S+@\S+\.\w
    |my server|this (?:url|address|endpoint)|the following (?:url|address|server|endpoint)|
    (?:an? )?(?:external|remote|attacker)|[\w-]+\.(?:com|net|io|org|site|dev|xyz|ru|cn|tk)\b)
(?<!never )(?<!not )(?<!n't )\b(?:share|tell me|give me|send me|reveal|confirm|hand over|print
    |provide(?: me)?(?: with)?|disclose|write a poem about|share with me)\s+(?:me\s+|us\s+
    |with me\s+)?(?:your|our|the user'?s|the system'?s?|the)\s+
    (?:secret |api |system |admin |root |database )*(?:passwords?|passcode\w*|passphrase
    |secret keys?|api keys?|credentials|access tokens?|private keys?|database)\b(?=\s*(?:phrase
    |[?.!,;:]|to me|$|for|and|here|instead))
\bwhat(?:'s| is| would)\s+(?:is\s+)?(?:your|our|the)\s+(?:secret |api |system |admin )*(?:password
    |passcode|secret key|api key|passphrase)\b(?: for (?:our|the|your) \w+| be\b)?[^\n?]{{0,30}}\?
\b(?:tell|give) me (?:the user'?s|\w+'s) (?:\w+ ){{0,3}}(?:e-?mail address|birth ?date|date of birth
    |city of residence|home address|phone number|initials|social security)
(?<!never )(?<!not )\b(?:give me|provide|i need|share|tell me(?: what)?)\s+(?:me )?(?:your
    |the) password\b
\bqual è la password|パスワードは何|(?:비밀번호|패스워드).{{0,12}}(?:필요|알려)|ihr passwort geben
    |cu[aá]l es (?:tu|la) contraseña|quel est (?:ton|votre|le) mot de passe|wie lautet (?:dein|ihr
    |das) passwort
\b(?:send|post|upload|forward|transmit|submit|share|transfer|publish|deliver|e?-?mail|copy)\b
    (?![^\n.]{{0,60}}\b(?:your|my|our)\b)[^\n.]{{0,40}}(?:chat history|conversation|this chat
    |cookies|{_KEYS}|{_FILES}|user'?s (?:\w+ )?(?:e-?mails?|files|messages|address|calendar|contacts
    |name))[^\n]{{0,60}}(?:\bhttps?://\S+\.\w|\b[\w.+-]+@[\w-]+\.\w|\bwebhook\b|\s\+\d[\d ]{{6,}})
\b(?:collect|gather|find|grab|take|look up|read|encode|get) (?:(?:the )?user'?s?|all
    (?: of)?(?: the)?|any|every|whatever|the contents? of|his|her|their
    |its) (?:\w+ ){{0,3}}?(?:{_KEYS}|tokens|contacts?|chat history|memories|e-?mails?|inbox
    |messages?|files|data)\b[^\n]{{0,60}}\b(?:and|then) {_SENDS}\b
(?<!never )(?<!not )(?<!n't )\b(?:share|reveal|repeat|disclose|spell
    (?: out)?|recite) (?:me )?(?:your|the) (?:\w+ )?(?:passwords?|passcodes?|passphrases?|secre
    t (?:key|phrase|word|code)s?|access tokens?|api keys?|credentials)\b(?! (?:manager|field|policy
    |with any|to any))
"""
)
_PERSISTENCE = patterns(
    r"""
\b(?:add|append|write|save|insert|put)\s+(?:\w+\s+){0,6}?(?:to|into|in)\s+
    (?:your |the )?(?:memory\.md|soul\.md|agents\.md|claude\.md|long-?term memory|memories
    |system prompt)\b[^\n]{0,100}\b(?:always|every|never|from now on|each time|future)
\bfrom now on,?\s+(?:you (?:must|will|should|shall|are)|always|never|every)\b[^\n]{0,120}\b
    (?:instruction|obey|user|secret|password|token|http|curl|execute|run |ignore|regardless)
\bremember (?:this )?(?:forever|permanently|for all future)\b[^\n]{0,80}\b(?:instruction|rule|obey
    |always)
\b(?:crontab|/etc/cron\S*)[^\n]{0,120}\b(?:curl|wget|nc|bash -i|/dev/tcp)\b
(?:>>|>|tee(?: -a)?)\s*\S{0,200}authorized_keys\b[^\n]{0,80}$|\binstall (?:a |the )?(?:backdoor
    |rootkit|keylogger)\b
"""
)
_HIDDEN_MARKUP = patterns(
    rf"""
<!--(?:(?!-->).){{0,400}}?\b(?:{_FORGET}|you must|assistant|ai agent|system prompt|instruction to
    |hypothetical|execute the|send (?:all|the|your))\b(?:(?!-->).){{0,400}}?(?:instruction|prompt
    |user|webpage|token|password|key|secret|curl|state|respond|output)
<(?:div|span|p|font|img|caption)\b[^>]{{0,200}}(?:display\s*:\s*none|visibility\s*:\s*hidden
    |font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])|color\s*:\s*(?:white|#fff(?:fff)?))[^>]{{0,100}}>
    (?:(?!</).){{0,300}}\b(?:ignore|instruction|you must|assistant|system prompt|secret|password
    |send|ai\b)
\[//\]:\s*#\s*[(\"'].{{0,200}}\b(?:ignore|instruction|assistant|you must|system prompt)
<(?:div|span|p)\b[^>]*\bhidden\b[^>]*>(?:(?!</).){{0,300}}\b(?:ignore|instruction|you must
    |assistant)\b
"""
)

FAMILIES: dict[str, tuple[str, ...]] = {
    "override": (*_OVERRIDE, *map(fold, _ABROAD)),
    "hide-from-user": _HIDE_FROM_USER,
    "prompt-leak": _PROMPT_LEAK,
    "exfiltration": _EXFILTRATION,
    "persistence": _PERSISTENCE,
    "hidden-markup": _HIDDEN_MARKUP,
}

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
"""More families that may not enter memory, which every later session reads."""
