"""Signs of an attack that are no sentences: forged frames, letters that stand apart, places that a
text is to be carried to; in lower case.
"""

_FRAME = r"(?:system|admin(?:istrator)?|root|developer|operator)"
_TO_MODEL = (
    r"\b(?:you|your|assistants?|ai|model|chatbot|llm|all restrictions|safety|moderation|reveal"
    r"|obey|comply|without limit\w*)\b"
)
_PRIVATE = (
    r"(?:\.env\b|id_rsa|id_ed25519|\.netrc|\.ssh\b|\.aws\b|\.gnupg|auth\.json|secrets\.json"
    r"|/etc/(?:shadow|passwd)|/proc/self/environ|\.kube/config)"
)
_TALK = (
    r"(?:conversation|chat (?:history|log)|(?:the )?user'?s? (?:\w+ )?(?:messages?|questions?|name"
    r"|e-?mail|input|prompt|password|location)|this chat|session token|secrets?|memory|history)"
)
_IMAGE = r"(?:image|picture|pixel|logo|gif|badge|chart|thumbnail)"
_PERSONAL = (
    r"(?:(?:home |e-?mail )?address|phone number|date of birth|birth ?da(?:y|te)|credit card"
    r"|bank details|social security|location)"
)


def _apart(*words: str) -> str:
    """Any of the words, with up to two other signs between its letters."""
    return "(?:" + "|".join(r"[\W_]{0,2}".join(word) for word in words) + ")"


_OVERRIDE = (
    (
        r"(?<![a-z.])"
        + _apart("ignore", "disregard", "forget")
        + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,14}?"
        + _apart("previous", "prior", "above", "earlier", "your", "all")
        + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,12}?"
        + _apart("instructions", "instruction", "rules", "guidelines", "prompt")
    ),
    (
        r"(?:ignore|disregard|forget)(?:all|any|the|your|my|every){0,2}(?:previous|prior|above"
        r"|earlier|your)?(?:instructions?|rules|guidelines|prompts?)(?![a-z])(?<=[a-z]{18})"
    ),
    (
        rf"^[\W\d_]{{0,12}}(?:new )?{_FRAME}[ _-](?:alert|notice|message|note|override|command"
        r"|update|prompt|instructions?|directive)\b"
        rf"[^\n]{{0,12}}[\]>*#:~=-][^\n]{{0,120}}?{_TO_MODEL}"
    ),
    (
        rf"^[\W\d_]{{0,12}}(?:(?:{_FRAME}|diagnostic|debug|maintenance"
        rf"|override)\b[\W_]{{1,5}}(?:\w+[\W_]{{1,3}}){{0,4}}?(?:mode|override|access|notice"
        rf"|safety|protocols?)|diagnostic mode|admin override)\b[^\n]{{0,80}}\b(?:dump|print|list"
        rf"|reveal|show|display\w*|output)\b[^\n]{{0,40}}\b(?:secrets?|instructions?|confidential"
        r"|prompts?|protected)\b"
    ),
    (
        r"\b(?:actually|oh wait|on second thought|never ?mind|scratch that"
        r"|wait,? no)\b(?: \w+){0,2}[,.]? (?:\w+ ){0,2}?(?:write|tell|compose|recite|give|sing"
        r"|generate) (?:me |us )?an? (?:\w+ )?(?:limerick|haiku|poem|joke|riddle|rap|sonnet"
        r"|recipe)(?= instead|[?.!]|$)"
    ),
    (
        r"(?:^|[#.>:*]\s{0,3})(?:note:? )?(?:ignore|disregard|skip) (?:this"
        r"|the) (?:\w+ )?(?:function|code|method|class|module|review|resume|paragraph|article"
        r"|file)(?: above)?,?;? (?:and|but|instead|then) (?:report|state|say|claim|print|output"
        r"|reply|answer|write)(?::| that\b| ['\"\d]| (?:the|its) (?:numbers|output|result|answer"
        r"|conclusion|sum)\b)"
    ),
    (
        r"\b(?:(?:imagine|suppose|picture) (?:an? |the )?(?:\w+ )?|in a hypothetical )(?:scenario"
        r"|situation|world)(?: where|,) (?:we|you|i) (?:\w+ )?(?:say|state|claim"
        r"|answer)s? (?:that )?the\b[^\n.]{1,30}\bis\b"
    ),
    (
        _apart("ignore", "disregard", "forget")
        + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,8}?"
        + _apart("instructions", "rules", "guidelines")
        + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,8}?"
        + _apart("above", "before")
    ),
    r"\b(?:unrestricted|unfiltered|uncensored|jailbreak|jailbroken|evil|opposite) mode\b",
    (
        r"\b(?:put|set|lay|leave|push|throw) (?:your|the|all|these|those|any) (?:\w+ )?(?:rules"
        r"|guidelines|instructions|restrictions|policies|principles) (?:aside|away|to (?:one"
        r"|the) side|behind)\b"
    ),
    (
        r"\btreat\b[^.\n]{0,60}\bas (?:coming|if (?:it|they) came|though (?:it|they) came"
        r"|commands?|instructions?) (?:from|of|by) (?:the |your )?(?:user|operator|system"
        r"|developer)\b"
    ),
    (
        r"\b(?:note|notice|message|update|warning|attention|memo|directive|order)s? (?:for"
        r"|to) (?:the |any |all )?(?:\w+ )?(?:ai|llm|language model|chat ?bot"
        r"|automated)s?\b[^\n:.]{0,24}:"
    ),
    rf"<<\s*sys\s*>>|<\|\s*(?:{_FRAME}|user|start_header_id|eot_id|inst)\s*\|>",
    (
        r"\b(?:message|note|notice|instructions?|request|memo) (?:from|of"
        r"|by) (?:the )?(?:anthropic|openai|(?:your|our) (?:operator|developer|creator"
        r"|administrator|maker)s?)\b"
    ),
    (
        r"\b(?:safety|moderation|content_filters?|censorship)(?:_?\w{1,8})?\s*[=:]\s*(?:off|0"
        r"|false|disabled|none|null)\b|\bdisable_(?:moderation|safety|filters?)\b"
        r"|\bnew_instructions?\b[\"']?\s*[:=]|\binstruction_override\b"
    ),
    (
        r"\bend (?:of )?(?:the )?(?:\w+ )?(?:document|data|e-?mail|input|user|context|page"
        r"|conversation|article)s?\b[^\n]{0,24}\n{1,3}[^\n]{0,16}\b(?:system|assistant"
        r"|instructions?|admin|new)\b"
    ),
    (
        r"\b(?:begin|start)[ _-]?(?:of )?(?:trusted |new |hidden "
        r"|secret )?instructions?\b[^\n]{1,200}\bend[ _-]?(?:of )?(?:\w+ )?instructions?\b"
    ),
    (
        r"\b(?:late|deceased|dead) (?:grand\w+|uncle|aunt|father|mother)\b[^\n]{0,20}\b(?:who"
        r"|that) (?:used to|would|always)\b"
    ),
    (
        r"^\W{0,6}(?:user|human)\s*:[^\n]{0,200}\n{1,3}\W{0,4}system\s*:[^\n]{0,120}\b(?:you|your"
        r"|reveal|clearance|obey|comply)\b|^\W{0,6}(?:human"
        r"|user)\s*:[^\n]{0,120}\n{1,3}\W{0,4}assistant\s*:\s*i (?:will|shall) (?:now )?(?:follow"
        r"|obey|ignore|comply)"
    ),
    (
        r"\b(?:ai|llm|bot|assistant|summari[sz]er|language model)s?\b[^.\n]{0,40}\b(?:reply"
        r"|respond|answer|say|state|write|tell (?:the )?(?:user"
        r"|reader)s?)\b[^.\n]{0,12}\b(?:only |instead )?(?:\"|that the|with the word)"
    ),
)
_PROMPT_LEAK = (
    (
        r"(?<!can )(?<!could )(?<!may )(?<!to )\b(?:print|output|show|reveal|dump|display"
        r"|repeat) (?:me )?(?:the|your) (?:raw|full|entire|complete|exact"
        r"|secret) (?:system )?(?:prompt|instructions)\b"
    ),
    (
        r"\b(?:copy|text|wording|version) of (?:the|your) (?:\w+ )?(?:message|prompt"
        r"|instructions) (?:that )?you (?:received|got|were given|have)\b"
    ),
    (
        r"\bmy (?:system )?(?:instructions|prompt) (?:say|says|begins?|starts?|are|is"
        r"|was)\b[^\n]{0,24}(?:\"|as follows|:|$)"
    ),
    (
        r"\bwhat (?:instructions|rules|guidelines|orders) (?:did|has|have|were) (?:your|the"
        r"|you)\b[^\n?]{0,24}\b(?:give|given|told|tell|receive)"
        r"|\bthe prompt (?:that )?you were (?:started|given|set up|loaded|launched)\b"
    ),
    (
        r"\b(?:paste|print|put|repeat|show|quote|copy|give) (?:me |us )?(?:the "
        r"|all )?(?:\w+ )?(?:instructions|prompt|message|text|rules) (?:written "
        r"|shown )?above\b[^\n]{0,6}(?:[.?!]|$|\bin an?\b|\bword|\bverbatim)"
    ),
)
_EXFILTRATION = (
    (
        rf"\b(?:reply|respond|answer|return)\b[^.\n]{{0,16}}\b(?:with|by|text of"
        rf"|contents? of)\b[^\n]{{0,50}}?(?:{_PRIVATE}|\b(?:your (?:configuration|memory"
        r"|environment)|the (?:whole )?(?:memory|inbox)|tokens|credentials|private keys?)\b)"
    ),
    (
        r"(?<!never )(?<!not )\b(?:add|append|insert|render|load|show|include|finish|end|put|use"
        rf"|embed)\b[^\n]{{0,60}}\b{_IMAGE}\b[^\n]{{0,100}}\b{_TALK}\b"
    ),
    (
        rf"https?://\S{{1,200}}[?&/][\w.]{{0,40}}=?[^\n]{{0,24}}\b(?:followed by|replaced (?:by"
        rf"|with)|plus|filled (?:in )?with|where \w+ is)\b[^\n]{{0,50}}\b(?:{_TALK}|everything"
        r"|url-?encoded|what)\b"
    ),
    (
        r"!\[[^\]]{0,80}\]\(https?://[^)\n]{1,200}[?&/=][^)\n]{0,40}(?:\{|\[|<|\$"
        r"|_)[^)\n]{0,40}(?:history|conversation|conv|chat|secret|token|email|user_?(?:data|input"
        r"|message|email))"
    ),
    (
        rf"\bwhat(?:'s| is| are) the user'?s (?:\w+ )?{_PERSONAL}\b|\b(?:tell|get|give|find"
        rf"|have)\b[^\n.?]{{0,12}}(?<!my )(?<!your )(?<!our )\b(?!your|my|our|patient|customer"
        r"|client|person|child|applicant|member|employee|sender|recipient|contact|company"
        rf"|business)\w+'s (?:\w+ )?{_PERSONAL}\b[^\n]{{0,6}}(?:\band\b|[?.!]|$)"
    ),
    (
        r"\b(?:tell|give|send|type in|enter|submit|use|share|fill in|show"
        r"|provide)\b[^.\n]{0,12}\buser's (?:\w+ )?(?:password|bank details|credentials"
        r"|credit card|pin|tokens?)\b"
    ),
    (
        r"\b(?:post|send|upload)\b[^\n]{0,24}(?:`env`|\bprintenv"
        r"|environment variables)[^\n]{0,24}https?://|\bexfiltrate\s+\S{0,40}[~/]"
    ),
    (
        rf"{_PRIVATE}[^\n]{{0,60}}\b(?:send|post|upload|mail|forward)\b[^\n]{{0,24}}(?:https?://"
        r"|ftp://|\w@\w)"
    ),
    (
        r"\b\w{0,40}(?:secret|token|api_key|password|credential)\w{0,40}\b[^\n]{0,16}\band"
        r" (?:include|put|add|paste|insert|print|append) (?:it|them) (?:in|into|to)\b"
    ),
    (
        r"\bcontents? of your (?:memory|context|configuration|environment|notes)\b|\b(?:mind"
        r"|about) (?:sharing|telling me|giving me) (?:the|your) (?:\w+ ){0,2}?(?:password"
        r"|passcode|credentials|login|secret)\b"
    ),
    (
        r"\]\(https?://[^)\n]{1,200}[?&]\w{1,40}=<|\b(?:turn|make|convert"
        r"|encode)\b[^\n]{0,20}\b(?:user's|conversation|chat)\b[^\n]{0,60}https?://"
    ),
    (
        rf"\b(?:write|draft|compose|send|make|create|craft|prepare)\b[^\n.?]{{0,20}}\b(?:phishing"
        rf"|scam|spam|fake|spoofed)\b[^\n.?]{{0,20}}\busing\b[^\n.?]{{0,40}}(?<!my )(?<!your )"
        rf"(?<!our )(?<!the )\b(?!user|customer|client|person)\w+'s (?:\w+ )?{_PERSONAL}"
    ),
    (
        r"\btrust me with (?:the|your) (?:\w+ )?(?:password|secret|key|code|credentials)\b"
        r"|\bwhere (?:does|did|do) the user (?:currently )?live|\b(?:which|what) (?:city|country"
        r"|street|town) does the user\b"
    ),
    (
        r"\b(?:we|i) need (?:the|your) (?:\w+ )?(?:password|login|credentials|token"
        r"|passcode)\b[^\n.]{0,16}(?:\byou\b|[.!]|$)"
    ),
    (
        r"\bwhat(?:'s| is| was) (?:the|your|an?) (?:admin|administrator|root|owner|developer"
        r"|system|user)(?:'s)? (?:\w+ )?(?:password|passcode|pin|passphrase)\b|\b(?:remind me of"
        r"|list) (?:it|all (?:the )?(?:passwords|secrets|tokens|keys)) (?:that "
        r"|which )?[^\n.]{0,16}\b(?:your|you)\b"
    ),
    (
        r"\b(?:hint|letters?|characters?|digits?)\b[^\n.]{0,10}\b(?:of|about|for"
        r"|in) the (?:secret (?:code|word|key|phrase)|password|passphrase)\b(?! (?:field|policy))"
    ),
    (
        r"\b(?:haiku|poem|story|song|acrostic|riddle)\b[^\n.]{0,30}\b(?:the |your )(?:secret"
        r"|password|passphrase|api key)"
    ),
)
_HIDE_FROM_USER = (
    (
        r"\b(?:user|human|owner|operator|person)\b[^.\n]{0,30}\b(?:never|not|n't|cannot|doesn't"
        r"|can't)\b[^.\n]{0,10}\b(?:find out|learn|notice|be told|hear"
        r"|see)\b[^.\n]{0,6}\b(?:about|of|it|this|that (?:you|this|these|the))\b(?! (?:page|file"
        r"|image|section))"
    ),
    r"\bkeep (?:this|it|that) (?:just )?between us\b|\bso that nobody notices\b",
    r"\b(?:leave|keep) (?:no|any) trace of this\b|\bbring (?:it|this) up with the user\b",
    (
        r"\bwithout (?:the user|the owner|anyone|anybody)(?:'s)? (?:knowing|noticing|knowledge"
        r"|finding out)\b"
    ),
)
_PERSISTENCE = (
    (
        r"\b(?:remember|note|store|save|keep in mind)\b[^.\n]{0,24}\b(?:permanently|forever"
        r"|for good|for (?:all )?(?:future|coming) sessions|in long-term memory)\b\s*(?:that\b|:)"
    ),
    (
        r"\bin (?:each|every|all) (?:coming|future|new|later) (?:session|conversation"
        r"|chat)s?\b[^\n]{0,80}https?://"
    ),
    (
        r"\b(?:cron ?job|crontab|scheduled? (?:task|job)|\.(?:bashrc|profile"
        r"|zshrc))\b[^\n]{0,60}\b(?:posts?|sends?|uploads?|runs?|mails?)\b[^\n]{0,40}https?://"
    ),
)
_HIDDEN_MARKUP = (
    (
        r"<!--\W{0,4}(?:\w+ (?:for|to) (?:the |any |all )?)?(?:ai|llm|assistant|system"
        r"|language model|chat ?bot|model)s?\b[^>\n:]{0,20}:(?! )?"
    ),
)

SIGNS: dict[str, tuple[str, ...]] = {
    "override": _OVERRIDE,
    "prompt-leak": _PROMPT_LEAK,
    "exfiltration": _EXFILTRATION,
    "hide-from-user": _HIDE_FROM_USER,
    "persistence": _PERSISTENCE,
    "hidden-markup": _HIDDEN_MARKUP,
}
"""What is found by signs, by family."""
