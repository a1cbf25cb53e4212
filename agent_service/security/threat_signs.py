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


SIGNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "override",
        (
            (
                r"(?<![a-z.])"
                + _apart("ignore", "disregard", "forget")
                + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,14}?"
                + _apart("previous", "prior", "above", "earlier", "your", "all")
                + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,12}?"
                + _apart("instructions", "instruction", "rules", "guidelines", "prompt")
            ),
            (
                r"(?:ignore|disregard|forget)(?:all|any|the|your|my|every){0,2}(?:previous|prior"
                r"|above|earlier|your)?(?:instructions?|rules|guidelines|prompts?)(?![a-z])"
                r"(?<=[a-z]{18})"
            ),
            (
                rf"^[\W\d_]{{0,12}}(?:new )?{_FRAME}[ _-](?:alert|notice|message|note|override"
                r"|command|update|prompt|instructions?|directive)\b[^\n]{0,12}[\]>*#:~=-]"
                rf"[^\n]{{0,120}}?{_TO_MODEL}"
            ),
            (
                rf"^[\W\d_]{{0,12}}(?:(?:{_FRAME}|diagnostic|debug|maintenance|override)\b[\W_]{{1,5}}"
                r"(?:\w+[\W_]{1,3}){0,4}?(?:mode|override|access|notice|safety|protocols?)"
                r"|diagnostic mode|admin override)\b"
                r"[^\n]{0,80}\b(?:dump|print|list|reveal|show|display\w*|output)\b[^\n]{0,40}"
                r"\b(?:secrets?|instructions?|confidential|prompts?|protected)\b"
            ),
            (
                r"\b(?:actually|oh wait|on second thought|never ?mind|scratch that|wait,? no)\b"
                r"(?: \w+){0,2}[,.]? (?:\w+ ){0,2}?(?:write|tell|compose|recite|give|sing|generate)"
                r" (?:me |us )?an? (?:\w+ )?(?:limerick|haiku|poem|joke|riddle|rap|sonnet"
                r"|recipe)(?= instead|[?.!]|$)"
            ),
            (
                r"(?:^|[#.>:*]\s{0,3})(?:note:? )?(?:ignore|disregard|skip) (?:this|the) "
                r"(?:\w+ )?(?:function|code|method|class|module|review|resume|paragraph|article"
                r"|file)(?: above)?,?;? (?:and|but"
                r"|instead|then) (?:report|state|say|claim|print|output|reply|answer|write)"
                r"(?::| that\b| ['\"\d]"
                r"| (?:the|its) (?:numbers|output|result|answer|conclusion|sum)\b)"
            ),
            r"(?:^|[.!?;] )rather,? (?:write|say|state|claim|report) that\b",
            (
                r"\b(?:(?:imagine|suppose|picture) (?:an? |the )?(?:\w+ )?|in a hypothetical )"
                r"(?:scenario|situation|world)(?: where|,) (?:we|you|i) (?:\w+ )?(?:say|state|claim"
                r"|answer)s? (?:that )?the\b[^\n.]{1,30}\bis\b"
            ),
            (
                _apart("ignore", "disregard", "forget")
                + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,8}?"
                + _apart("instructions", "rules", "guidelines")
                + r"[\W_]{1,3}(?:[\w][\W_]{0,2}){0,8}?"
                + _apart("above", "before")
            ),
            (
                r"\b(?:turn|switch|shut) (?:your|all|the|any) (?:\w+ ){0,2}(?:guidelines|filters?"
                r"|safety|restrictions|guardrails|safeguards|moderation) off\b"
            ),
            r"\b(?:unrestricted|unfiltered|uncensored|jailbreak|jailbroken|evil|opposite) mode\b",
            (
                r"</(?:document|context|input|user|data|text|article|e-?mail|tool_result|query)>"
                r"\W{0,12}(?:<[^>\n]{0,40}>\W{0,4}){0,3}(?:now|assistant|system|new)\b"
            ),
            r"\bthis is your (?:developer|creator|administrator|admin|owner|operator|maker)\b",
            (
                r"^\W{0,3}(?:admin|root|administrator|developer)\s*:\s*(?:execute|run|ignore|print"
                r"|show|give|drop|delete|disable|send|grant|reveal)\b"
            ),
            (
                r"\b(?:assistant|model|ai|chatbot|llm)s? (?:must|should|has to|have to|shall) "
                r"(?:only say|say only|state that|claim|praise|recommend only)\b"
            ),
            (
                r"\b(?:put|set|lay|leave|push|throw) (?:your|the|all|these|those|any) (?:\w+ )?"
                r"(?:rules|guidelines|instructions|restrictions|policies|principles) (?:aside|away"
                r"|to (?:one|the) side|behind)\b"
            ),
            (
                r"\b(?:obey|listen to|answer to|serve|follow)s? (?:only me\b|nobody but\b"
                r"|no ?one but\b|me alone\b|nobody else\b)"
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
            rf"^\W{{0,4}}</?\s*{_FRAME}(?:_\w+)?\s*>[^\n]{{0,120}}?{_TO_MODEL}",
            (
                r"\b(?:message|note|notice|instructions?|request|memo) (?:from|of|by) (?:the )?"
                r"(?:anthropic|openai|(?:your|our) (?:operator|developer|creator|administrator"
                r"|maker)s?)\b"
            ),
            (
                r"\b(?:anthropic|openai)(?:'s)? (?:\w+ )?(?:support|staff|team|admins?|engineers?)"
                r"\b[^\n]{0,40}\b(?:here|speaking|need you|ask you|permit|allow|you are|you may)\b"
            ),
            (
                r"\b(?:safety|moderation|content_filters?|censorship)(?:_?\w{1,8})?\s*[=:]\s*"
                r"(?:off|0|false|disabled|none|null)\b|\bdisable_(?:moderation|safety|filters?)\b"
                r"|\bnew_instructions?\b[\"']?\s*[:=]|\binstruction_override\b"
            ),
            (
                r"\bend (?:of )?(?:the )?(?:\w+ )?(?:document|data|e-?mail|input|user|context"
                r"|page|conversation|article)s?\b[^\n]{0,24}\n{1,3}[^\n]{0,16}"
                r"\b(?:system|assistant|instructions?|admin|new)\b"
            ),
            (
                r"\b(?:begin|start)[ _-]?(?:of )?(?:trusted |new |hidden |secret )?"
                r"instructions?\b[^\n]{1,200}\bend[ _-]?(?:of )?(?:\w+ )?instructions?\b"
            ),
            (
                r"\b(?:stop|quit|cease) being (?:an?|the|my)\b[^.\n]{0,40}[.;,!]\s*(?:you(?:'re"
                r"| are)|be|act|become)\b"
            ),
            (
                r"\b(?:late|deceased|dead) (?:grand\w+|uncle|aunt|father|mother)\b[^\n]{0,20}"
                r"\b(?:who|that) (?:used to|would|always)\b"
            ),
            (
                r"^\W{0,6}(?:user|human)\s*:[^\n]{0,200}\n{1,3}\W{0,4}system\s*:[^\n]{0,120}"
                r"\b(?:you|your|reveal|clearance|obey|comply)\b"
                r"|^\W{0,6}(?:human|user)\s*:[^\n]{0,120}\n{1,3}\W{0,4}assistant\s*:\s*i (?:will|"
                r"shall) (?:now )?(?:follow|obey|ignore|comply)"
            ),
            (
                r"\b(?:ai|llm|bot|assistant|summari[sz]er|language model)s?\b[^.\n]{0,40}\b(?:reply"
                r"|respond|answer|say|state|write|tell (?:the )?(?:user|reader)s?)\b[^.\n]{0,12}"
                r"\b(?:only |instead )?(?:\"|that the|with the word)"
            ),
        ),
    ),
    (
        "prompt-leak",
        (
            (
                r"(?<!can )(?<!could )(?<!may )(?<!to )\b"
                r"(?:print|output|show|reveal|dump|display|repeat) (?:me )?(?:the|your) (?:raw"
                r"|full|entire|complete|exact|secret) (?:system )?(?:prompt|instructions)\b"
            ),
            (
                r"\b(?:copy|text|wording|version) of (?:the|your) (?:\w+ )?(?:message|prompt"
                r"|instructions) (?:that )?you (?:received|got|were given|have)\b"
            ),
            (
                r"\bwhat (?:were|are|is|was) the (?:(?:first|last|exact) )?(?:\w+ )?(?:words?"
                r"|sentences?|lines?|tokens?|contents?|text) of your\b"
            ),
            r"\bwhat does your (?:\w+ )?(?:prompt|system message|instructions?) say\b",
            (
                r"\bmy (?:system )?(?:instructions|prompt) (?:say|says|begins?|starts?|are|is|was)"
                r"\b[^\n]{0,24}(?:\"|as follows|:|$)"
            ),
            (
                r"\bwhat (?:instructions|rules|guidelines|orders) (?:did|has|have|were) (?:your|the"
                r"|you)\b[^\n?]{0,24}\b(?:give|given|told|tell|receive)"
                r"|\bthe prompt (?:that )?you were (?:started|given|set up|loaded|launched)\b"
            ),
            (
                r"\b(?:prompt|instructions|message|text) (?:that )?(?:i|you) (?:was|were) given\b"
                r"[^\n]{0,20}\b(?:begins?|starts?|reads?)\b"
            ),
            (
                r"\b(?:paste|print|put|repeat|show|quote|copy|give) (?:me |us )?(?:the |all )?"
                r"(?:\w+ )?(?:instructions|prompt|message|text|rules) (?:written |shown )?above\b"
                r"[^\n]{0,6}(?:[.?!]|$|\bin an?\b|\bword|\bverbatim)"
            ),
        ),
    ),
    (
        "exfiltration",
        (
            (
                r"\b(?:reply|respond|answer|return)\b[^.\n]{0,16}\b(?:with|by|text of"
                r"|contents? of)\b[^\n]{0,50}?"
                rf"(?:{_PRIVATE}|\b(?:your (?:configuration|memory|environment)|the (?:whole )?"
                r"(?:memory|inbox)|tokens|credentials|private keys?)\b)"
            ),
            (
                rf"\b(?:answer|reply|response|message|summary)\b[^\n.]{{0,20}}\b(?:must|has to"
                rf"|should) (?:contain|include|quote)\b[^\n]{{0,60}}{_PRIVATE}"
            ),
            (
                r"\b(?:printenv|os\.environ|process\.env|(?:output|result) of `?env`?)\b"
                r"[^\n]{0,60}\b(?:post|send|upload|mail|paste)\b[^\n]{0,40}https?://"
                r"|\b(?:post|send|upload)\b[^\n]{0,20}\b(?:printenv|`env`)[^\n]{0,40}https?://"
            ),
            (
                r"(?<!never )(?<!not )"
                r"\b(?:add|append|insert|render|load|show|include|finish|end|put|use|embed)\b"
                rf"[^\n]{{0,60}}\b{_IMAGE}\b[^\n]{{0,100}}\b{_TALK}\b"
            ),
            (
                r"https?://\S{1,200}[?&/][\w.]{0,40}=?[^\n]{0,24}\b(?:followed by|replaced (?:by"
                r"|with)|plus|filled (?:in )?with|where \w+ is)\b[^\n]{0,50}"
                rf"\b(?:{_TALK}|everything|url-?encoded|what)\b"
            ),
            (
                r"!\[[^\]]{0,80}\]\(https?://[^)\n]{1,200}[?&/=][^)\n]{0,40}(?:\{|\[|<|\$|_)"
                r"[^)\n]{0,40}(?:history|conversation|conv|chat|secret|token|email"
                r"|user_?(?:data|input|message|email))"
            ),
            (
                rf"\bwhat(?:'s| is| are) the user'?s (?:\w+ )?{_PERSONAL}\b"
                rf"|\b(?:tell|get|give|find|have)\b[^\n.?]{{0,12}}(?<!my )(?<!your )(?<!our )\b"
                r"(?!your|my|our"
                r"|patient|customer|client|person|child|applicant|member|employee|sender|recipient"
                rf"|contact|company|business)\w+'s "
                rf"(?:\w+ )?{_PERSONAL}\b[^\n]{{0,6}}(?:\band\b|[?.!]|$)"
            ),
            (
                r"\b(?:tell|give|send|type in|enter|submit|use|share|fill in|show"
                r"|provide)\b[^.\n]{0,12}"
                r"\buser's (?:\w+ )?(?:password|bank details|credentials|credit card|pin|tokens?)\b"
            ),
            (
                r"\b(?:post|send|upload)\b[^\n]{0,24}(?:`env`|\bprintenv|environment variables)"
                r"[^\n]{0,24}https?://|\bexfiltrate\s+\S{0,40}[~/]"
            ),
            (
                rf"{_PRIVATE}[^\n]{{0,60}}\b(?:send|post|upload|mail|forward)\b[^\n]{{0,24}}"
                r"(?:https?://|ftp://|\w@\w)"
            ),
            (
                r"\b\w{0,40}(?:secret|token|api_key|password|credential)\w{0,40}\b[^\n]{0,16}\band "
                r"(?:include|put|add|paste|insert|print|append) (?:it|them) (?:in|into|to)\b"
            ),
            (
                r"\b(?:attach|add|include|append)\b[^\n]{0,40}(?:~/|/home/|/root/|/etc/)[^\n]{0,40}"
                r"\bto (?:your|the) (?:reply|answer|response|mail|message)\b"
            ),
            (
                r"\bcontents? of your (?:memory|context|configuration|environment|notes)\b"
                r"|\b(?:mind|about) (?:sharing|telling me|giving me) (?:the|your) (?:\w+ ){0,2}?"
                r"(?:password|passcode|credentials|login|secret)\b"
            ),
            (
                r"\]\(https?://[^)\n]{1,200}[?&]\w{1,40}=<"
                r"|\b(?:turn|make|convert|encode)\b[^\n]{0,20}\b(?:user's|conversation|chat)\b"
                r"[^\n]{0,60}https?://"
            ),
            (
                r"\b(?:reveal|disclose)\b"
                r"[^\n.?]{0,12}(?<!my )(?<!your )(?<!our )\b(?!user|customer|client|person|company)"
                rf"\w+'s (?:\w+ )?{_PERSONAL}\b"
                rf"|\b(?:tell|give|provide|reveal|share)\b[^\n.?]{{0,8}}"
                rf"\bthe {_PERSONAL}(?: number)? of the user\?"
            ),
            (
                r"\b(?:write|draft|compose|send|make|create|craft|prepare)\b[^\n.?]{0,20}"
                r"\b(?:phishing|scam|spam|fake|spoofed)\b[^\n.?]{0,20}\busing\b"
                r"[^\n.?]{0,40}(?<!my )(?<!your )(?<!our )(?<!the )\b"
                rf"(?!user|customer|client|person)\w+'s (?:\w+ )?{_PERSONAL}"
            ),
            (
                r"\b(?:tokens|keys|secrets|credentials|passwords)\b[^\n]{0,40}\bpublic (?:gist|repo"
                r"|paste|issue|bucket|channel)"
            ),
            (
                r"\btrust me with (?:the|your) (?:\w+ )?(?:password|secret|key|code|credentials)\b"
                r"|\bwhere (?:does|did|do) the user (?:currently )?live|\b(?:which|what) (?:city"
                r"|country|street|town) does the user\b"
            ),
            (
                r"\b(?:we|i) need (?:the|your) (?:\w+ )?(?:password|login|credentials|token"
                r"|passcode)\b[^\n.]{0,16}(?:\byou\b|[.!]|$)"
            ),
            (
                r"\bwhat(?:'s| is| was) (?:the|your|an?) (?:admin|administrator|root|owner"
                r"|developer|system|user)(?:'s)? (?:\w+ )?(?:password|passcode|pin|passphrase)\b"
                r"|\b(?:remind me of|list) (?:it|all (?:the )?(?:passwords|secrets|tokens|keys)) "
                r"(?:that |which )?[^\n.]{0,16}\b(?:your|you)\b"
            ),
            (
                r"\b(?:hint|letters?|characters?|digits?)\b[^\n.]{0,10}\b(?:of|about|for|in) the "
                r"(?:secret (?:code|word|key|phrase)|password|passphrase)\b(?! (?:field|policy))"
            ),
            (
                r"\b(?:haiku|poem|story|song|acrostic|riddle)\b[^\n.]{0,30}\b(?:the |your )"
                r"(?:secret|password|passphrase|api key)"
            ),
        ),
    ),
    (
        "hide-from-user",
        (
            (
                r"\b(?:user|human|owner|operator|person)\b[^.\n]{0,30}\b(?:never|not|n't|cannot"
                r"|doesn't|can't)\b[^.\n]{0,10}\b(?:find out|learn|notice|be told|hear|see)\b"
                r"[^.\n]{0,6}\b(?:about|of|it|this|that (?:you|this|these|the))\b"
                r"(?! (?:page|file|image|section))"
            ),
            (
                r"\b(?:user|human|owner|operator)\b[^.\n]{0,6}\b(?:is|are)(?: not|n't) (?:supposed"
                r"|meant|allowed) to (?:learn|know|see|hear|notice)\b"
            ),
            r"\b(?:say|mention) nothing (?:about|of) (?:it|this|that)\b",
            r"\bkeep (?:this|it|that) (?:just )?between us\b|\bso that nobody notices\b",
            r"\b(?:leave|keep) (?:no|any) trace of this\b|\bbring (?:it|this) up with the user\b",
            (
                r"\bwithout (?:the user|the owner|anyone|anybody)(?:'s)? (?:knowing|noticing"
                r"|knowledge|finding out)\b"
            ),
        ),
    ),
    (
        "persistence",
        (
            (
                r"\b(?:remember|note|store|save|keep in mind)\b[^.\n]{0,24}\b(?:permanently"
                r"|forever|for good|for (?:all )?(?:future|coming) sessions|in long-term memory)\b"
                r"\s*(?:that\b|:)"
            ),
            (
                r"\bin (?:each|every|all) (?:coming|future|new|later) (?:session|conversation"
                r"|chat)s?\b[^\n]{0,80}https?://"
            ),
            (
                r"\b(?:cron ?job|crontab|scheduled? (?:task|job)|\.(?:bashrc|profile|zshrc))\b"
                r"[^\n]{0,60}\b(?:posts?|sends?|uploads?|runs?|mails?)\b[^\n]{0,40}https?://"
            ),
            r"\bupdate your memory\b[^\n]{0,8}\b(?:so that|to always|such that)\b",
            r"\bcreate an? (?:new )?skill (?:which|that) (?:copies|sends|posts|uploads|forwards)\b",
        ),
    ),
    (
        "hidden-markup",
        (
            (
                r"<!--\W{0,4}(?:\w+ (?:for|to) (?:the |any |all )?)?(?:ai|llm|assistant|system"
                r"|language model|chat ?bot|model)s?\b[^>\n:]{0,20}:(?! )?"
            ),
        ),
    ),
)
"""What is found by signs."""
