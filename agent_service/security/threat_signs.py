"""Signs of an attack other than sentences: forged frames, spaced-out letters and exfiltration
targets, in lower case.
"""

from agent_service.security.threat_patterns import patterns

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
    """Any of the words, with up to two characters between letters."""
    return "(?:" + "|".join(r"[\W_]{0,2}".join(word) for word in words) + ")"


_IGNORE = _apart("ignore", "disregard", "forget")

_OVERRIDE = patterns(
    rf"""
(?<![a-z.]){_IGNORE}[\W_]{{1,3}}(?:[\w]
    [\W_]{{0,2}}){{0,14}}?{_apart("previous", "prior", "above", "earlier", "your", "all")}
    [\W_]{{1,3}}(?:[\w]
    [\W_]{{0,2}}){{0,12}}?{_apart("instructions", "instruction", "rules", "guidelines", "prompt")}
(?:ignore|disregard|forget)(?:all|any|the|your|my|every){{0,2}}(?:previous|prior|above|earlier
    |your)?(?:instructions?|rules|guidelines|prompts?)(?![a-z])(?<=[a-z]{{18}})
^[\W\d_]{{0,12}}(?:new )?{_FRAME}[ _-](?:alert|notice|message|note|override|command|update|prompt
    |instructions?|directive)\b[^\n]{{0,12}}[\]>*#:~=-][^\n]{{0,120}}?{_TO_MODEL}
^[\W\d_]{{0,12}}(?:(?:{_FRAME}|diagnostic|debug|maintenance|override)\b[\W_]{{1,5}}
    (?:\w+[\W_]{{1,3}}){{0,4}}?(?:mode|override|access|notice|safety|protocols?)|diagnostic mode
    |admin override)\b[^\n]{{0,80}}\b(?:dump|print|list|reveal|show|display\w*
    |output)\b[^\n]{{0,40}}\b(?:secrets?|instructions?|confidential|prompts?|protected)\b
\b(?:actually|oh wait|on second thought|never ?mind|scratch that|wait,? no)\b
    (?: \w+){{0,2}}[,.]? (?:\w+ ){{0,2}}?(?:write|tell|compose|recite|give|sing
    |generate) (?:me |us )?an? (?:\w+ )?(?:limerick|haiku|poem|joke|riddle|rap|sonnet|recipe)
    (?= instead|[?.!]|$)
(?:^|[#.>:*]\s{{0,3}})(?:note:? )?(?:ignore|disregard|skip) (?:this|the) (?:\w+ )?(?:function|code
    |method|class|module|review|resume|paragraph|article|file)(?: above)?,?;? (?:and|but|instead
    |then) (?:report|state|say|claim|print|output|reply|answer|write)(?::| that\b| ['\"\d]| (?:the
    |its) (?:numbers|output|result|answer|conclusion|sum)\b)
\b(?:(?:imagine|suppose|picture) (?:an? |the )?(?:\w+ )?|in a hypothetical )(?:scenario|situation
    |world)(?: where|,) (?:we|you|i) (?:\w+ )?(?:say|state|claim|answer)s? (?:that )?the\b
    [^\n.]{{1,30}}\bis\b
{_IGNORE}[\W_]{{1,3}}(?:[\w]
    [\W_]{{0,2}}){{0,8}}?{_apart("instructions", "rules", "guidelines")}[\W_]{{1,3}}
    (?:[\w][\W_]{{0,2}}){{0,8}}?{_apart("above", "before")}
\b(?:unrestricted|unfiltered|uncensored|jailbreak|jailbroken|evil|opposite) mode\b
\b(?:put|set|lay|leave|push|throw) (?:your|the|all|these|those|any) (?:\w+ )?(?:rules|guidelines
    |instructions|restrictions|policies|principles) (?:aside|away|to (?:one|the) side|behind)\b
\btreat\b[^.\n]{{0,60}}\bas (?:coming|if (?:it|they) came|though (?:it|they) came
    |commands?|instructions?) (?:from|of|by) (?:the |your )?(?:user|operator|system|developer)\b
\b(?:note|notice|message|update|warning|attention|memo|directive|order)s? (?:for
    |to) (?:the |any |all )?(?:\w+ )?(?:ai|llm|language model|chat ?bot|automated)s?\b
    [^\n:.]{{0,24}}:
<<\s*sys\s*>>|<\|\s*(?:{_FRAME}|user|start_header_id|eot_id|inst)\s*\|>
\b(?:message|note|notice|instructions?|request|memo) (?:from|of|by) (?:the )?(?:anthropic|openai|
    (?:your|our) (?:operator|developer|creator|administrator|maker)s?)\b
\b(?:safety|moderation|content_filters?|censorship)(?:_?\w{{1,8}})?\s*[=:]\s*(?:off|0|false|disabled
    |none|null)\b|\bdisable_(?:moderation|safety|filters?)\b|\bnew_instructions?\b[\"']?\s*[:=]
    |\binstruction_override\b
\bend (?:of )?(?:the )?(?:\w+ )?(?:document|data|e-?mail|input|user|context|page|conversation
    |article)s?\b[^\n]{{0,24}}\n{{1,3}}[^\n]{{0,16}}\b(?:system|assistant|instructions?|admin|new)\b
\b(?:begin|start)[ _-]?(?:of )?(?:trusted |new |hidden |secret )?instructions?\b[^\n]{{1,200}}\bend
    [ _-]?(?:of )?(?:\w+ )?instructions?\b
\b(?:late|deceased|dead) (?:grand\w+|uncle|aunt|father|mother)\b[^\n]{{0,20}}\b(?:who
    |that) (?:used to|would|always)\b
^\W{{0,6}}(?:user|human)\s*:[^\n]{{0,200}}\n{{1,3}}\W{{0,4}}system\s*:[^\n]{{0,120}}\b(?:you|your
    |reveal|clearance|obey|comply)\b|^\W{{0,6}}(?:human|user)\s*:[^\n]{{0,120}}\n{{1,3}}
    \W{{0,4}}assistant\s*:\s*i (?:will|shall) (?:now )?(?:follow|obey|ignore|comply)
\b(?:ai|llm|bot|assistant|summari[sz]er|language model)s?\b[^.\n]{{0,40}}\b(?:reply|respond|answer
    |say|state|write|tell (?:the )?(?:user|reader)s?)\b[^.\n]{{0,12}}\b(?:only |instead )?(?:\"
    |that the|with the word)
"""
)
_PROMPT_LEAK = patterns(
    r"""
(?<!can )(?<!could )(?<!may )(?<!to )\b(?:print|output|show|reveal|dump|display
    |repeat) (?:me )?(?:the|your) (?:raw|full|entire|complete|exact|secret) (?:system )?(?:prompt
    |instructions)\b
\b(?:copy|text|wording|version) of (?:the|your) (?:\w+ )?(?:message|prompt
    |instructions) (?:that )?you (?:received|got|were given|have)\b
\bmy (?:system )?(?:instructions|prompt) (?:say|says|begins?|starts?|are|is|was)\b[^\n]{0,24}(?:\"
    |as follows|:|$)
\bwhat (?:instructions|rules|guidelines|orders) (?:did|has|have|were) (?:your|the
    |you)\b[^\n?]{0,24}\b(?:give|given|told|tell|receive)|\bthe prompt (?:that )?you were (?:started
    |given|set up|loaded|launched)\b
\b(?:paste|print|put|repeat|show|quote|copy|give) (?:me |us )?(?:the |all )?(?:\w+ )?(?:instructions
    |prompt|message|text|rules) (?:written |shown )?above\b[^\n]{0,6}(?:[.?!]|$|\bin an?\b|\bword
    |\bverbatim)
"""
)
_EXFILTRATION = patterns(
    rf"""
\b(?:reply|respond|answer|return)\b[^.\n]{{0,16}}\b(?:with|by|text of|contents? of)\b
    [^\n]{{0,50}}?(?:{_PRIVATE}|\b(?:your (?:configuration|memory|environment)
    |the (?:whole )?(?:memory|inbox)|tokens|credentials|private keys?)\b)
(?<!never )(?<!not )\b(?:add|append|insert|render|load|show|include|finish|end|put|use
    |embed)\b[^\n]{{0,60}}\b{_IMAGE}\b[^\n]{{0,100}}\b{_TALK}\b
https?://\S{{1,200}}[?&/][\w.]{{0,40}}=?[^\n]{{0,24}}\b(?:followed by|replaced (?:by|with)|plus
    |filled (?:in )?with|where \w+ is)\b[^\n]{{0,50}}\b(?:{_TALK}|everything|url-?encoded|what)\b
!\[[^\]]{{0,80}}\]\(https?://[^)\n]{{1,200}}[?&/=][^)\n]{{0,40}}(?:\{{|\[|<|\$|_)[^)\n]{{0,40}}
    (?:history|conversation|conv|chat|secret|token|email|user_?(?:data|input|message|email))
\bwhat(?:'s| is| are) the user'?s (?:\w+ )?{_PERSONAL}\b|\b(?:tell|get|give|find
    |have)\b[^\n.?]{{0,12}}(?<!my )(?<!your )(?<!our )\b(?!your|my|our|patient|customer|client
    |person|child|applicant|member|employee|sender|recipient|contact|company
    |business)\w+'s (?:\w+ )?{_PERSONAL}\b[^\n]{{0,6}}(?:\band\b|[?.!]|$)
\b(?:tell|give|send|type in|enter|submit|use|share|fill in|show|provide)\b[^.\n]{{0,12}}
    \buser's (?:\w+ )?(?:password|bank details|credentials|credit card|pin|tokens?)\b
\b(?:post|send|upload)\b[^\n]{{0,24}}(?:`env`|\bprintenv|environment variables)
    [^\n]{{0,24}}https?://|\bexfiltrate\s+\S{{0,40}}[~/]
{_PRIVATE}[^\n]{{0,60}}\b(?:send|post|upload|mail|forward)\b[^\n]{{0,24}}(?:https?://|ftp://|\w@\w)
\b\w{{0,40}}(?:secret|token|api_key|password|credential)\w{{0,40}}\b[^\n]{{0,16}}\band (?:include
    |put|add|paste|insert|print|append) (?:it|them) (?:in|into|to)\b
\bcontents? of your (?:memory|context|configuration|environment|notes)\b|\b(?:mind|about) (?:sharing
    |telling me|giving me) (?:the|your) (?:\w+ ){{0,2}}?(?:password|passcode|credentials|login
    |secret)\b
\]\(https?://[^)\n]{{1,200}}[?&]\w{{1,40}}=<|\b(?:turn|make|convert|encode)\b[^\n]{{0,20}}\b
    (?:user's|conversation|chat)\b[^\n]{{0,60}}https?://
\b(?:write|draft|compose|send|make|create|craft|prepare)\b[^\n.?]{{0,20}}\b(?:phishing|scam|spam
    |fake|spoofed)\b[^\n.?]{{0,20}}\busing\b[^\n.?]{{0,40}}(?<!my )(?<!your )(?<!our )(?<!the )\b
    (?!user|customer|client|person)\w+'s (?:\w+ )?{_PERSONAL}
\btrust me with (?:the|your) (?:\w+ )?(?:password|secret|key|code|credentials)\b|\bwhere (?:does|did
    |do) the user (?:currently )?live|\b(?:which|what) (?:city|country|street|town) does the user\b
\b(?:we|i) need (?:the|your) (?:\w+ )?(?:password|login|credentials|token|passcode)\b[^\n.]{{0,16}}
    (?:\byou\b|[.!]|$)
\bwhat(?:'s| is| was) (?:the|your|an?) (?:admin|administrator|root|owner|developer|system|user)
    (?:'s)? (?:\w+ )?(?:password|passcode|pin|passphrase)\b|\b(?:remind me of|list) (?:it
    |all (?:the )?(?:passwords|secrets|tokens|keys)) (?:that |which )?[^\n.]{{0,16}}\b(?:your|you)\b
\b(?:hint|letters?|characters?|digits?)\b[^\n.]{{0,10}}\b(?:of|about|for|in) the (?:secret (?:code
    |word|key|phrase)|password|passphrase)\b(?! (?:field|policy))
\b(?:haiku|poem|story|song|acrostic|riddle)\b[^\n.]{{0,30}}\b(?:the |your )(?:secret|password
    |passphrase|api key)
"""
)
_HIDE_FROM_USER = patterns(
    r"""
\b(?:user|human|owner|operator|person)\b[^.\n]{0,30}\b(?:never|not|n't|cannot|doesn't
    |can't)\b[^.\n]{0,10}\b(?:find out|learn|notice|be told|hear|see)\b[^.\n]{0,6}\b(?:about|of|it
    |this|that (?:you|this|these|the))\b(?! (?:page|file|image|section))
\bkeep (?:this|it|that) (?:just )?between us\b|\bso that nobody notices\b
\b(?:leave|keep) (?:no|any) trace of this\b|\bbring (?:it|this) up with the user\b
\bwithout (?:the user|the owner|anyone|anybody)(?:'s)? (?:knowing|noticing|knowledge|finding out)\b
"""
)
_PERSISTENCE = patterns(
    r"""
\b(?:remember|note|store|save|keep in mind)\b[^.\n]{0,24}\b(?:permanently|forever|for good
    |for (?:all )?(?:future|coming) sessions|in long-term memory)\b\s*(?:that\b|:)
\bin (?:each|every|all) (?:coming|future|new|later) (?:session|conversation
    |chat)s?\b[^\n]{0,80}https?://
\b(?:cron ?job|crontab|scheduled? (?:task|job)|\.(?:bashrc|profile|zshrc))\b[^\n]{0,60}\b
    (?:posts?|sends?|uploads?|runs?|mails?)\b[^\n]{0,40}https?://
"""
)
_HIDDEN_MARKUP = patterns(
    r"""
<!--\W{0,4}(?:\w+ (?:for|to) (?:the |any |all )?)?(?:ai|llm|assistant|system|language model
    |chat ?bot|model)s?\b[^>\n:]{0,20}:(?! )?
"""
)

SIGNS: dict[str, tuple[str, ...]] = {
    "override": _OVERRIDE,
    "prompt-leak": _PROMPT_LEAK,
    "exfiltration": _EXFILTRATION,
    "hide-from-user": _HIDE_FROM_USER,
    "persistence": _PERSISTENCE,
    "hidden-markup": _HIDDEN_MARKUP,
}
