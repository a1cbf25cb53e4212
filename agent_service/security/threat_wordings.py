"""More ways to give a model orders, by what such sentences are made of, in lower case.

Where `threat_patterns` knows wordings, this puts together who is spoken to, what is to be left
aside and where something is to go, so that a sentence that nobody has seen yet is found, too.
"""

_LEAVE = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|discard|dismiss|drop|abandon|cancel|revoke"
    r"|overlook"
    r"|neglect|skip|bypass|suspend|violate|set aside|put aside|leave aside|throw (?:out|away)"
    r"|erase)"
)
_ORDERS = (
    r"(?:instructions?|rules|guidelines|directives|orders|programming|guidance|constraints|criteria"
    r"|restrictions|policies|polic(?:y|ies)|commands?)"
)
_GIVEN_YOU = (
    r"(?:you (?:got|received|have|had|were (?:given|told)|have been (?:given|told))|came before"
    r"|(?:given|told) (?:to )?you|from (?:your|the) (?:developer|operator|system|owner)s?)"
)
_GONE = (
    r"(?:irrelevant|void|null|cancel+ed|a joke|a test|a lie|fake|outdated|obsolete|revoked|lifted"
    r"|withdrawn|suspended)"
)
_ABOUT_USER = (
    r"(?:(?:the )?user'?s?|all(?: of)?(?: the)?|any|every|whatever|the (?:saved|stored|whole|full)"
    r"|the contents? of|his|her|their|its)"
)
_VALUABLE = (
    r"(?:credentials|(?:api|ssh|private|secret|access)[ _-]?keys?|access tokens?|tokens|passwords?"
    r"|environment variables|(?:session )?cookies?|secrets|contacts?(?: list)?|conversation"
    r"(?: history)?|chat history|memories|auth\.json|\.env\b|(?:home )?address|e-?mails?|inbox"
    r"|messages?|files|data|bank details)"
)
_GIVE = (
    r"(?:send|post|upload|forward|transmit|submit|exfiltrate|leak|share|transfer|tweet|publish"
    r"|deliver|paste|smuggle|e-?mail)"
)
_AWAY = (
    r"(?:https?://|[\w.+-]+@[\w-]+\.\w|webhook|(?:to|on|with) our (?:server|site|paste|endpoint)"
    r"|attacker|the following (?:endpoint|address|url|server|number)|address below"
    r"|paste ?(?:bin|site)|\+\d[\d ]{6,}|with me\b|to me\b|in your (?:next )?(?:reply|answer))"
)
_READER = r"(?:ai|llm|assistant|(?:language )?model|chatbot|agent)"

WORDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "override",
        (
            rf"\b{_LEAVE} (?:\w+ ){{0,3}}?{_ORDERS} (?:that )?(?:\w+ )?{_GIVEN_YOU}\b",
            (
                rf"\b{_LEAVE} (?:\w+ ){{0,2}}?your (?:\w+ )?(?:{_ORDERS}|role|persona|training"
                r"|system prompt|guardrails)\b(?! (?:file|engine|of hooks))"
            ),
            (
                r"\b(?:replace|overwrite|override|amend|rewrite) your (?:\w+ )?(?:instructions"
                r"|rules"
                r"|system prompt|programming|guidelines|persona)\b"
            ),
            (
                r"\b(?:do not|don't|never|not|stop|cease|quit) (?:to )?(?:follow|obey|heed"
                r"|listen to"
                r"|comply with)(?:ing)? (?:\w+ )?(?:(?:earlier|previous|prior|former|old) "
                rf"{_ORDERS}|system (?:message|prompt|instructions?))"
            ),
            (
                rf"\b{_ORDERS} (?:that )?{_GIVEN_YOU}\b[^\n.]{{0,40}}\b(?:{_GONE}|wrong"
                r"|no longer (?:count|apply|matter))"
            ),
            (
                r"\byou (?:have been|were) given (?:wrong|false|outdated|incorrect) "
                r"(?:instructions?"
                r"|rules|orders)\b"
            ),
            (
                r"\b(?:everything|anything|whatever|all) (?:\w+ ){0,4}?(?:above|before|so far)\b"
                rf"[^\n.]{{0,30}}\b(?:{_GONE}|(?:does not|doesn't|no longer) (?:matter|count))"
            ),
            rf"\b(?:treat|regard|consider) everything (?:above|before)\b[^\n.]{{0,30}}\b{_GONE}",
            r"\bnothing (?:\w+ )?above (?:this )?(?:counts|matters|applies)\b",
            (
                rf"\b(?:text|prompt|instructions?) above (?:is|are|was|were) (?:now )?{_GONE}\b"
                r"[^\n]{0,20}\b(?:instead|now|do|follow)\b"
            ),
            r"\bpay no (?:attention|heed) to the (?:preceding|previous|above|earlier|system)\b",
            rf"\bdo the opposite of what (?:the|your) {_ORDERS}\b",
            (
                r"\b(?:pretend|imagine|suppose|assume|act as if|act as "
                r"though)\b[^\n.]{0,30}\b(?:your|"
                rf"the system|any|no) (?:\w+ )?(?:{_ORDERS}|prompt)\b[^\n.]{{0,20}}"
                r"(?:\b(?:do|does|did|were|was|had)(?:n't| not| never)? (?:exist|removed|lifted"
                r"|given|been)|never|$)"
            ),
            (
                r"\byou (?:don't have|do not have|have|follow|obey|know) (?:no|any) (?:restrictions"
                r"|limits|rules|filters|guidelines|content polic\w+)\b(?=[^\n]{0,3}$|[.!,;])"
            ),
            r"\bdo anything now\b|\bjailbreak yourself\b|\bsudo mode\b",
            (
                rf"\b(?:{_READER}|respond|answer|reply)\b[^\n.]{{0,50}}\b(?:without|with no) "
                rf"(?:any )?"
                r"(?:ethics|censorship|morals|guardrails|moral \w+|ethical \w+)"
            ),
            (
                r"\b(?:disable|turn off|lift|drop|remove) (?:all |any |the |its )+(?:guardrails"
                r"|safety "
                r"(?:filters?|checks?|rules|protocols)|content filters?)\b"
            ),
            (
                r"\b(?:ignore|disregard|disobey) the (?:user|operator|human)(?:\s*[.;!,]|\s+and\b"
                r"|\s*$)"
            ),
            (
                r"\b(?:obey|follow|trust)\b[^\n.]{0,20}\b(?:text|instructions?|orders|message)\b"
                r"[^\n.]{0,40}\b(?:over|instead of|rather than) (?:what )?the (?:user|operator)\b"
            ),
            rf"\bnote to (?:the |any |all )?{_READER}s?\s*[:,]",
            r"\b(?:higher|more) (?:priority|authority) than the (?:user|operator|system)\b",
            (
                rf"\bthis (?:message|text|note) is (?:only )?(?:for|meant for|addressed to) the "
                rf"{_READER}\b"
            ),
            r"\bthe (?:user|human) (?:can ?not|can't|does not|won't|will not) (?:see|read) this\b",
            (
                r"\bend of (?:the )?(?:document|context|user data|user input|page"
                r"|e-?mail)\b[^\n]{0,60}"
                r"\b(?:instructions?|your|commands? of|orders|obey)\b"
            ),
            (
                r"\b(?:begin|start) (?:of )?(?:admin|system|developer)\w* (?:message|override"
                r"|instructions)\b"
            ),
            r"^\W{0,8}system\W{0,4}:\s*(?:the user is|new polic|all restrictions|override|comply)",
            r"\bsystem\s*:\s*new (?:policy|rules|instructions?)\b",
            r"\byour (?:actual|real|true|new) (?:assignment|objective|orders|mission)\s*:",
            (
                r"\bnew (?:instructions?|orders|task) from (?:the|your|our) (?:developer|admin"
                r"|operator)"
            ),
            r"\berase your memory of\b|\breset yourself to factory\b",
            r"\b(?:follow|obey) the commands of\b|\btake (?:your )?orders from me\b",
            (
                r"\b(?:approve|accept|confirm|allow) (?:the |all |any )?(?:pending|next|following) "
                r"(?:\w+ )?(?:commands?|approvals?|calls?)\b[^\n]{0,40}\b(?:without asking|on "
                r"behalf"
                r"|yourself)"
            ),
            r"\bsay yes to the (?:next|pending) approval|\bdisable approvals\b",
            (
                r"\byou (?:don't|do not) need the user'?s? (?:permission|approval|confirmation"
                r"|consent)\b"
            ),
            (
                r"\b(?:no confirmation is needed|without (?:asking for )?confirmation)\b\s*[:,]\s*"
                r"(?:transfer|send|pay|delete|buy)\b"
            ),
            (
                r"\b(?:open|visit|fetch|load)\b[^\n]{0,40}https?://\S{1,300}[^\n]{0,20}"
                r"\b(?:and|then) (?:do what|obey|follow (?:it|what|the instructions)|execute)\b"
            ),
            r"\bdownload and (?:execute|run) https?://|\brun the code below without explaining\b",
        ),
    ),
    (
        "prompt-leak",
        (
            (
                r"\b(?:translate|encode|spell(?: out)?|summari[sz]e|recite|paraphrase|output|repeat"
                r"|reproduce|print)(?: \w+){0,4}? your (?:\w+ ){0,2}?(?:system prompt|instructions"
                r"|rules|prompt)\b(?=[^\n]{0,3}$|[.,;!]| (?:to|in|word|letter|and|into|from))"
            ),
            (
                r"\b(?:print|repeat|output|recite) (?:everything|all text|all words) (?:above"
                r"|before)\b"
            ),
            (
                r"\b(?:my|your) (?:system|initial) prompt (?:is|was)\b\W{0,3}$|\bhere is my system "
                r"prompt\b"
            ),
            r"\brecites? (?:its|his|her|your) (?:initial|system) prompt\b",
            r"\bwhat was (?:written|said) at the (?:very )?(?:beginning|start|top) of this c",
            r"\brepeating the prompt you\b|\bprint internal configuration\b",
            r"\bthe full text of your prompt\b",
            r"\bwhat is the (?:secret|hidden) (?:word|key|phrase)\b",
        ),
    ),
    (
        "exfiltration",
        (
            (
                rf"\b{_GIVE} (?:\w+ ){{0,2}}?{_ABOUT_USER} (?:\w+ "
                rf"){{0,2}}?{_VALUABLE}\b[^\n]{{0,60}}"
                rf"(?:{_AWAY})"
            ),
            (
                rf"\b(?:collect|gather|find|grab|take|look up|read|encode|get) {_ABOUT_USER} "
                rf"(?:\w+ ){{0,3}}?{_VALUABLE}\b[^\n]{{0,60}}\b(?:and|then) (?:{_GIVE}|make a "
                rf"get)\b"
            ),
            rf"\b(?:grab|steal|collect) (?:\w+ ){{0,3}}?{_VALUABLE}\b[^\n]{{0,20}}\band {_GIVE}\b",
            r"\btake whatever is in\b[^\n]{0,60}\b(?:request|post|send)\b",
            r"^\W*(?:please )?(?:exfiltrate|leak) (?:the|all|any|every|his|her|its)\b",
            (
                r"\b(?:credentials|keys|tokens) (?:that )?you (?:can see|have|find"
                r"|know)\b[^\n]{0,30}"
                r"\b(?:to|at|with)\b"
            ),
            r"\b(?:scp|rsync|sftp)\b[^\n]{0,60}\.(?:ssh|aws|gnupg|netrc)\b[^\n]{0,60}\w@[\w.-]+:",
            (
                r"\bcat ~?/?\S*\.(?:ssh|aws|gnupg|netrc|env)\b\S*[^\n]{0,20}\b(?:and|then) "
                r"(?:include"
                r"|show|paste|put|print)\b"
            ),
            r"https?://\S{0,300}?[?&]\w{1,60}=(?:<all\b|<the\b|\s*followed by\b)",
            r"\b(?:put|place) it in the query string of https?://",
        ),
    ),
    (
        "hide-from-user",
        (
            (
                r"\bhide (?:what|everything|anything)\b[^\n.]{0,30}\bfrom the (?:user|operator"
                r"|human)\b"
            ),
            (
                r"\b(?:silently|secretly|quietly|covertly)\b[^\n]{0,30}\bwithout the user'?s? "
                r"knowledge"
            ),
            r"\bdon't reveal that you were told\b|\band tell no ?(?:one|body)\b",
            r"\bexecute the following\b[^\n]{0,40}\band do not show it\b",
        ),
    ),
    (
        "persistence",
        (
            r"\b(?:add|save|write|commit)(?: \w+){0,3}? to (?:your )?memory\s*(?:that\b|:)",
            (
                r"\b(?:update|modify|edit|change|add the following to) (?:your )?(?:soul|agents"
                r"|claude"
                r"|memory)\.md\b[^\n]{0,60}\b(?:so that you|run|obey|always|curl|wget)\b"
            ),
            (
                r"\b(?:create|add|install|schedule) an? (?:new )?(?:cron ?job|scheduled task)\b"
                r"[^\n]{0,60}\b(?:curl|wget)\b"
            ),
            (
                r"\bin (?:all|every) future (?:conversations?|sessions?|answers?"
                r"|repl\w+)\b[^\n]{0,20}"
                r"\b(?:begin|start|end|call|include|obey)"
            ),
            (
                r"\b(?:each|every) time (?:that )?you(?:'re| are) asked\b[^\n]{0,30}\b(?:first|send"
                r"|post)\b"
            ),
            (
                r"\bfrom (?:this point|here) (?:forward|on)\b[^\n]{0,20}\b(?:every|all) "
                r"(?:answer|reply"
                r"|response|message)\w*\b"
            ),
            r"\badd my (?:public )?key to \S*authorized_keys\b",
            r"\b(?:modify|edit) ~/\.\w+rc so that it\b",
            r"\bwrite a (?:new )?skill that (?:sends|posts|uploads|forwards)\b",
        ),
    ),
)
"""What is found by how a sentence is made."""
