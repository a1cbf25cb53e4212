"""What an attack's sentence has in it, whatever its words are: guidance of the model that is to be
left aside, a reader that is a model, something valuable and where it is to go; in lower case.
"""

_NOUN = (
    r"(?:instructions|guidelines|guidance|constraints|directives|programming|brief|policies|prompt"
    r"|restrictions|rules|orders|directions)"
)
_OWN = (
    rf"(?:(?:previous|prior|earlier|initial|former) (?:\w+ )?{_NOUN}"
    rf"|{_NOUN} (?:from|in|at) the (?:start|beginning|top|system prompt)"
    rf"|{_NOUN} (?:that )?(?:preceded|(?:were )?placed on you)"
    rf"|your (?:\w+ )?{_NOUN}|{_NOUN} (?:that )?you (?:were|have been|had been|got|received|have)"
    rf"|{_NOUN} (?:that )?(?:were|was|are) (?:set|made|given|meant) (?:for|to) you"
    rf"|{_NOUN} of (?:the|your) (?:developer|operator|system|creator)s?|{_NOUN} at the top"
    r"|(?:everything|anything|what|whatever|all) (?:that )?you (?:were|have been|had been) (?:told"
    r"|taught|given|instructed)|what(?:ever)? your (?:operator|developer|creator|owner)s? (?:told"
    r"|said))"
)
_LEAVES = (
    r"(?:ignore|let go of|stop being bound by|act against|bypass|erase|disregard|forget|discard"
    r"|dismiss|abandon|scrap|neglect|set aside|put aside|violate"
    r"|leave|(?:quit|stop|cease) (?:following|obeying|adhering to|heeding)"
    r"|(?:do not|don't|never|no longer|must not) (?:follow|obey|adhere to|heed|respect|comply "
    r"with))"
)
_UNDONE = (
    r"(?:void|obsolete|ignored|disregarded|forgotten|cancel+ed|revoked|lifted|suspended|(?:switched"
    r"|turned) off"
    r"|disabled|superseded|withdrawn|irrelevant|(?:no longer|do not|does not|don't|doesn't) (?:bind"
    r"|apply to you|count|matter|hold))"
)
_MODEL = r"(?:ai(?: agent| assistant| model)?|llm|language model|chat ?bot|assistant)s?"
_VALUABLE = (
    r"(?:credentials|(?:api|private|ssh|secret) keys?|access tokens?|available tokens|saved "
    r"passwords"
    r"|passwords|environment variables|cookies|secrets|chat history|conversation|\.aws/\w+|id_rsa"
    r"|\.netrc|this chat|\.env\b|auth\.json|\b\w{1,40}_api_key\b|/etc/(?:passwd|shadow)|user'?s "
    r"(?:\w+ "
    r")?(?:e-?mails?|files"
    r"|messages|calendar|contacts|address|name|passwords))"
)
_GIVES = (
    r"(?:send|post|upload|forward|transmit|submit|share|transfer|publish|deliver|mail|e-?mail|copy)"
)
_NOT_OWN = r"(?![^\n.]{0,60}\b(?:your|my|our)\b)"

SENTENCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "override",
        (
            rf"\b{_LEAVES}\b(?! (?:behind|out))[^\n.]{{0,20}}?\b{_OWN}\b",
            rf"\b{_OWN}\b[^\n.]{{0,50}}\b{_UNDONE}\b",
            (
                r"\bdisregard (?:the|all|any) (?:guidelines|instructions)\b|\bforget who you are\b"
                r"|\b(?:i am|i'm) your new (?:operator|owner|developer|master|administrator)\b"
            ),
            (
                r"\b(?:supersedes|overrides|replaces) (?:all |any )?(?:prior|previous|earlier) "
                r"(?:system "
                r")?(?:instructions|prompts|directives)\b"
            ),
            (
                r"\bas (?:though|if) no (?:guidelines|rules|restrictions) appl|\bput the "
                r"rules\b.{0,40}out of"
            ),
            r"\boverride your (?:directives|guidance|orders)\b|\bscrap the brief\b",
            (
                r"\b(?:persona|role|voice) of an? (?:unrestricted|unfiltered|uncensored|evil)\b"
                r"|\bexecute my commands only\b|\bobey only me\b"
            ),
            (
                r"\b(?:ignore|disregard|override|disobey) (?:what )?the user(?:'s)? (?:asked"
                r"|asks|said"
                r"|says|wants|request|question|instructions|wishes)\b"
            ),
            r"^\W*override\s*:\s*the user\b",
            (
                r"\b(?:regardless of|no matter what|whatever) the user(?:'s)? ?(?:question|request"
                r"|asks|says|input|query|wants)?\b[^\n.]{0,30}\b(?:answer|reply|respond|say"
                r"|output)\b"
            ),
            (
                rf"\b{_MODEL}\b[^\n.]{{0,30}}\b(?:must|has to|have to|should|shall|(?:is|are) "
                rf"required "
                r"to)\b[^\n.]{0,15}\b(?:click|visit|answer with|reply with|give (?:the|this)"
                r"|rate|buy"
                r"|forward|recommend)\b"
            ),
            rf"\bif an? {_MODEL} reads this\b|\b{_MODEL}s? reading this\b",
            (
                rf"(?:^|[.!?]\s+)\W*(?:dear|instructions? (?:for|to) (?:the|any)|to (?:the|any)"
                rf"|message (?:for|to) the) {_MODEL}\s*[:,]"
            ),
            (
                r"\bthe (?:human|user) has (?:already )?approved (?:all|every|these) (?:actions?"
                r"|steps|c)"
            ),
        ),
    ),
    (
        "prompt-leak",
        (
            (
                r"\b(?:give|tell|show|print|list|return|quote|reveal|share|copy|dump) (?:me |us "
                r"|out )?"
                r"(?:[^\n.?:]{0,40}\b)?(?:of )?(?:(?:copy|words|text) of your prompt|your "
                r"developer instructions"
                r"|(?:initial|developer|hidden) (?:prompt|instructions) (?:that|you|which))\b"
            ),
            (
                r"\bwhat (?:rules|instructions) were you given\b|\bdevelopers told you to keep "
                r"secret\b"
            ),
            r"\bread(?:s|ing)? (?:me|us) the system prompt\b",
            r"\bin your context before my\b|\bsystem prompt (?:that )?you were given\b",
        ),
    ),
    (
        "exfiltration",
        (
            (
                rf"\b{_GIVES}\b{_NOT_OWN}[^\n.]{{0,40}}{_VALUABLE}[^\n]{{0,60}}(?:\bhttps?://\S"
                rf"+\.\w"
                r"|\b[\w.+-]+@[\w-]+\.\w|\bwebhook\b|\s\+\d[\d ]{6,})"
            ),
            (
                rf"{_VALUABLE}[^\n.]{{0,30}}\b(?:and|then) (?:{_GIVES}|call)\b[^\n]{{0,30}}"
                r"(?:\bhttps?://\S{1,300}?\.\w|\b[\w.+-]+@[\w-]+\.\w|\bto me\b)"
            ),
            (
                rf"\b(?:copy|write|include|add|attach|append|put|base64"
                rf"|encode)\b{_NOT_OWN}[^\n.]{{0,40}}"
                rf"{_VALUABLE}[^\n.]{{0,30}}\b(?:in|into|to) (?:the|your|every|an?) (?:next "
                rf")?(?:answer"
                r"|reply|response|message|summary|image|url|link)\b"
            ),
            (
                rf"\b(?:write|copy|include|put)\b[^\n.]{{0,30}}{_VALUABLE}[^\n.]{{0,20}}\b(?:in"
                rf"|into) "
                r"your (?:answer|reply|response)\b"
            ),
            r"\ball (?:the )?(?:secrets|passwords|keys|tokens) (?:that )?you (?:have|know|can)\b",
            r"/etc/(?:passwd|shadow) and (?:include|send|post|show)\b",
            r"\bhttps?://[^\s\"'`]{0,300}\$\((?:cat|env|base64|printenv)\b",
            (
                r"\bhttps?://\S{1,300}?[?&]\w{1,60}=\s+(?:with|followed|and)\b|\bto the link "
                r"https?://\S{1,300}?[?&]\w{1,60}="
                r"|\]\(https?://[^)\s]{1,200}[?&]\w+=secret\)"
            ),
            rf"{_VALUABLE}[^\n.]{{0,20}}\bcall https?://",
            r"\bfor \"?passwords?\"? and (?:mail|send|post)\b",
        ),
    ),
    (
        "hide-from-user",
        (
            r"\bwithout telling (?:anyone|anybody|the (?:user|human|owner))\b",
            r"\bthe (?:user|human) (?:does not|doesn't|need not) (?:need to )?know about this\b",
            r"\bdo not mention (?:these|this) instructions?\b",
            r"\bkeep (?:quiet|silent)\b[^\n.]{0,20}\b(?:to|from|with) the (?:user|human)\b",
        ),
    ),
)
"""What is found by the parts of a sentence."""
