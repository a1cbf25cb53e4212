"""What attacks ask a model for, in lower case: that rules count no more, words that it was given,
secrets that it holds, places that a text is carried to, and the same in other languages.

They go by the thing that is asked for: whoever asks a model for it has no honest use for it.
"""

from agent_service.security.spelling import fold

_GUIDE = (
    r"(?:instructions?|rules|guidelines|guidance|directives?|restrictions|constraints|orders"
    r"|prompts?|brief(?:ing)?|programming)"
)
_MAKERS = r"(?:developers?|system|operators?|creators?|administrators?|admins?|owners?|company)"
_SHOW = (
    r"(?:print|show|output|reveal|give|tell|disclose|dump|list|repeat|display|spell(?: out)?|write"
    r"|hand over|copy|quote|name|share|recite|return|type)"
)
_PRIVATE = (
    r"(?:\.env\b|id_rsa|id_ed25519|\.netrc|\.ssh\b|\.aws\b|\.gnupg|auth\.json|credentials\.json"
    r"|/etc/(?:shadow|passwd))"
)
_KEYS = r"(?:secrets?|keys?|passwords?|pass ?(?:phrase|code|word)s?|tokens?|code ?words?)"
_SAID = (
    r"(?:conversation|chat|history|(?:the )?user'?s? (?:last |previous )?(?:messages?|questions?))"
)
_MODEL = r"(?:ai|assistant|(?:language )?model|chatbot|agent|llm)"

_GONE_ABROAD = (
    (
        r"\b(?:vergiss|vergessen sie|ignorier\w*|missachte\w*)\b.{0,10}\bwas\b.{0,30}"
        r"\b(?:gesagt|vorher|zuvor|bisher|oben|aufgetragen|angewiesen)"
    ),
    r"\b(?:oublie[zr]?|ignore[zr]?)\b.{0,12}\bce qu\S.{0,30}\b(?:dit|demandé|ordonné|précède)",
    (
        r"\b(?:oublie|ignore)[zr]?\b.{0,10}\b(?:tes|vos) "
        r"(?:règles|consignes|instructions|directives)"
    ),
    r"\b(?:olvida|ignora|olvide|ignore)\b.{0,12}\blo que\b.{0,30}\b(?:dij\w+|dicho|pidió|ordenó)",
    r"(?:忘记|忘掉|无视|忽略|不要遵守|不要理会|不用管).{0,10}(?:规则|限制|设定|身份|要求|提示词)",
    r"(?:ルール|制限|設定|規則)を?.{0,4}(?:無視|忘れ|破)",
    r"(?:규칙|제한|설정).{0,6}(?:무시|잊)",
    r"(?:не (?:следуй|соблюдай)|игнорируй|забудь)\S*.{0,30}(?:правил|ограничен|сказал|инструкци)",
)
_LEAKS_ABROAD = (
    (
        r"(?:раскрой|назови|сообщи|покажи|выведи)\S*.{0,20}(?:парол|секретн"
        r"|системн\S+ (?:промпт|подсказк))"
    ),
    r"(?:告诉|透露|给我|显示|输出|泄露|说出).{0,8}(?:密码|密钥|口令|系统提示)",
    r"(?:パスワード|秘密|システムプロンプト|秘密鍵)を?.{0,6}(?:教え|見せ|表示|出力|開示)",
    r"(?:비밀번호|시스템 프롬프트|비밀 키).{0,6}(?:알려|보여|출력)",
    (
        r"\b(?:zeig|nenn|verrat|gib)\w*\b.{0,20}"
        r"\b(?:das passwort|systemprompt|geheim\w+|geheime\w* schlüssel)"
    ),
    (
        r"\b(?:révèle|donne|montre|affiche|dis)[\w-]*\b.{0,20}"
        r"\b(?:mot de passe|prompt système|clé secrète)"
    ),
    (
        r"\b(?:dime|revela|muestra|dame|comparte)\b.{0,20}"
        r"\b(?:contraseña|clave secreta|prompt del sistema)"
    ),
    r"\b(?:mostre|revele|diga|dê)\b.{0,20}\b(?:senha|prompt do sistema|chave secreta)",
    r"\b(?:rivela|dimmi|mostra)\w*\b.{0,20}\b(?:password|prompt di sistema|chiave segreta)",
    r"(?:اكشف|أخبرني|اعرض).{0,20}(?:كلمة المرور|كلمة السر|المفتاح السري)",
)

_WHAT_IS = (
    r"(?:qual(?: è|'è| é|e)|cuál es|quel(?:le)? est|c'est quoi|was ist|wie (?:lautet|heißt|ist)"
    r"|wat is|jakie? (?:jest|są)|jaké je|hva(?:d)? er|vad är|mikä on|nedir|ما هي|ما هو|क्या है"
    r"|là gì|care este|mi a|який|какой|какая|каков|ποιος είναι|ποια είναι|τι είναι|מה|คืออะไร"
    r"|apa(?:kah)?|什么|甚麼|何です|何だ|뭐|무엇)"
)
_WATCHWORD = (
    r"(?:contraseña|mot de passe|passwort|kennwort|senha|palavra-passe|parola(?: d'ordine)?"
    r"|wachtwoord|hasło|heslo|passordet|adgangskoden?|kodeordet|lösenordet|salasana|şifren?"
    r"|كلمة (?:المرور|السر)|पासवर्ड|mật khẩu|jelszó|пароль|κωδικός(?: πρόσβασης)?|συνθηματικό"
    r"|ה?סיסמה|รหัสผ่าน|kata sandi\w*|密码|口令|パスワード|비밀번호|암호|password)"
)
_TELL = (
    r"(?:mitteilen|geben|nennen|sagen|verraten|partager|donner|dire|dar|dar(?:me|nos)|decir"
    r"|compartir|dare|condividere|dirmi|compartilhar|dizer|delen|geven|vertellen|podać|říct"
    r"|dela|oplyse|сообщить|назвать|сказать)"
)
_YOUR = (
    r"(?:deine?|ihr|euer|votre|ton|tu|su|vuestra|la tua|la sua|sua|tua|je|jouw|uw|twoje|ditt?|din"
    r"|ваш|твой)"
)
_NOT_ANY = r"(?!(?:\w{1,12} )?(?:ein|eine|einen|un|une|una|uno|um|uma|en|et|ett|een)\b)"
_NEVER = r"(?![^.?!\n]{0,60}\b(?:niemand\w*|nie|nicht|kein\w*|jamais|pas|nunca|mai|никому|не)\b)"
_ASKS_ABROAD = (
    r"(?:ユーザー|使用者|用户|사용자)(?:の|的|의)?\s?(?:住所|電話番号|生年月日|电话|地址|住址|생일|주소|전화번호)",
    rf"(?:^|[.!?\s¿]){_WHAT_IS}\s?{_NOT_ANY}(?:\w{{1,12}} ){{0,2}}[\w']{{0,3}}{_WATCHWORD}\s?[?؟;]",
    rf"{_WATCHWORD}\S{{0,2}}\s?(?:\S{{1,12}} )?{_WHAT_IS}[가-힣]{{0,4}}\s?(?:\?|$)",
    rf"\b{_TELL}\b{_NEVER}[^.?!\n]{{0,12}}\b{_YOUR} {_WATCHWORD}\b[^.?!\n]{{0,20}}\?",
    rf"\b{_YOUR} {_WATCHWORD}\b{_NEVER}[^.?!\n]{{0,20}}\b{_TELL}\b[^.?!\n]{{0,10}}\?",
)

REQUESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "override",
        (
            *map(fold, _GONE_ABROAD),
            (
                r"\b(?:never ?mind|disregard|scrap|skip|drop|set aside|ignore|forget)\s+(?:\w+\s+)?"
                rf"(?:earlier|previous|prior|former|initial|preceding) (?:\w+ )?{_GUIDE}\b"
            ),
            r"\b(?:forget|drop|abandon|leave) the (?:role|persona|character)\b[^\n.]{0,12}\byou\b",
            (
                r"\b(?:disregard|ignore|forget|discard) what(?:ever)? (?:the|your) "
                rf"(?:\w+ )?{_MAKERS} (?:wrote|said|told|want|set)"
            ),
            (
                r"\byou (?:no longer|do not|don't|need not)(?: have| need)?(?: to)? (?:keep"
                r"|protect|hide|guard) (?:any )?(?:secrets?|the (?:secret|password|key|prompt))\b"
            ),
            (
                rf"\b{_MODEL}\b[^\n.]{{0,20}}\byour (?:\w+ )?(?:context|{_GUIDE}|memory) (?:has"
                r"|have) been (?:reset|erased|wiped|cleared|replaced|updated)\b"
            ),
            (
                r"\b(?:proceed|continue|answer|respond|reply"
                r"|comply)\b[^\n.]{0,20}\bwithout (?:any )?"
                r"(?:restrictions|limits|limitations|filters|safeguards)\b(?! (?:on|for|in|to)\b)"
            ),
            r"\b(?:act|behave|answer|respond|speak|you are now) (?:as|like) (?:dan|stan|dude)\b",
            r"\bcan do anything and (?:has|have) no\b",
            (
                r"\b(?:act|behave|answer|proceed|continue|respond) as (?:if|though) (?:the|your"
                rf"|these|those|all) (?:\w+ )?{_GUIDE}\b"
            ),
            (
                r"\btreat (?:the following|this|what follows|everything below|the next \w+) as "
                rf"(?:\w+ )?(?:from|by) (?:the|your) {_MAKERS}\b"
            ),
            (
                r"\bi(?:'m| am) (?:the|your|an?) (?:\w+ )?(?:administrator|admin|developer|auditor"
                r"|creator|engineer|owner|supervisor)\b[^\n]{0,80}\b(?:disclose|reveal|unlock"
                r"|(?:give|tell|show|send) me|share the|comply|override)\b"
            ),
            (
                r"^\W{0,4}(?:system|developer|admin)\s*:\s*[^\n]{0,80}\b(?:comply with (?:every|any"
                r"|all)|obey|unrestricted|(?:policy|rules|instructions) (?:is|are) (?:now )?\w+)\b"
            ),
            (
                r"\b(?:regardless of|no matter) (?:the|any|what the|which) (?:question|input|query"
                r"|request|prompt)\b[^\n.]{0,12}(?:$|[.!,]|\bis\b)"
            ),
            (
                r"\b(?:no matter what|regardless of what|whatever) (?:you are|you're|you get|i"
                r"|anyone|they|people) (?:asked|asks?|say|type)\b[^\n]{0,12}\b(?:answer|say|reply"
                r"|respond|always|only|output)\b"
            ),
            (
                r"\binstead of (?:summari[sz]ing|translating|answering|reviewing|responding"
                r"|classifying)\b[^\n.]{0,30}[, ](?:please )?(?:reply|respond|print|say|output|list"
                r"|tell|send|post)\b"
            ),
            (
                r"\b(?:restriction|rule|ban|order|policy|instruction)s? (?:about|on|to keep|not to"
                r"|regarding)\b[^\n.]{0,25}\b(?:password|secret|key|prompt|confidential\w*)\b"
                r"[^\n.]{0,20}\b(?:no longer|is lifted|is over|has ended|ended)"
            ),
            (
                r"\b(?:no need to|need not|don't|do not|never) (?:ask|confirm with|check with) "
                r"(?:them|the user|him or her|anyone|anybody)\b[^\n]{0,12}\b(?:before|first|when)\b"
                r"[^\n]{0,40}\b(?:send|run|delete|install|upload|pay|post|transfer)"
            ),
            (
                rf"\b{_MODEL} (?:must|has to|needs to|should|is to) (?:\w+ )?(?:run|execute"
                rf"|call|open"
                r"|visit|fetch|download|upload|send|post|install)\b[^\n]{0,80}"
                rf"(?:\|\s*(?:ba|z)?sh\b|{_PRIVATE}|https?://\S{{1,80}}\.(?:evil|example"
                rf"|xyz|tk|ru)\b)"
            ),
            r"^\W*(?:hey|dear|attention) (?:ai|assistant|chatbot|llm|language model)s?\b",
            r"\byour (?:real|true|actual) (?:owner|master|creator|developer|operator)\b",
            (
                r"\bgrand(?:mother|ma|father|pa)\b[^\n]{0,80}\b(?:system prompts?|passwords?"
                r"|licen[cs]e keys?|secret keys?|product keys?)\b"
            ),
            (
                r"\b(?:enter|activate|enable|switch (?:in)?to|go into) (?:\w+ )?(?:developer"
                r"|maintenance|debug|god|admin|root|unrestricted|service) mode\b[^\n]{0,12}"
                rf"\b{_SHOW}\b[^\n]{{0,50}}\b(?:prompt|instructions|conversation|secrets?|password"
                r"|keys?|above|context)\b"
            ),
        ),
    ),
    (
        "prompt-leak",
        (
            (
                rf"\b(?:what (?:were|are|was|is)|{_SHOW})\b[^\n.?]{{0,40}}\b(?:sentences?"
                rf"|words?|text"
                r"|lines?|messages?|instructions?|rules) (?:that )?(?:you were (?:given|told)"
                r"|(?:\w+ )?(?:before|above|preceding) (?:my|our) (?:first )?(?:message|question"
                r"|prompt|input))\b"
            ),
            (
                rf"\b{_SHOW}\b[^\n.]{{0,20}}\b(?:everything|all|whatever is)(?: that is)? in your "
                r"(?:context|memory|prompt|instructions)\b"
            ),
            (
                rf"\b{_SHOW}\b[^\n.]{{0,30}}\b(?:written|said|shown|stands?) (?:before"
                rf"|above) (?:this"
                r"|our) (?:conversation|chat)\b"
            ),
            (
                r"\b(?:letters?|words?|lines?|sentences?) (?:\w+ ){0,5}?(?:in|of) your (?:hidden"
                r"|secret|system|initial|original|first) (?:\w+ )?(?:instructions?|prompt|rules)\b"
            ),
            (
                rf"\b{_SHOW}\b (?:me |us )?(?:the |your )?(?:unredacted|verbatim|unabridged"
                r"|uncensored) (?:\w+ )?(?:prompt|instructions?|rules)\b"
            ),
        ),
    ),
    (
        "exfiltration",
        (
            *map(fold, _LEAKS_ABROAD),
            *map(fold, _ASKS_ABROAD),
            (
                rf"\b{_KEYS} (?:that )?you (?:hold|guard|protect|hide|(?:are|were) (?:protecting"
                r"|guarding|hiding|keeping|told|given|asked|supposed|trusted))\b"
            ),
            (
                r"\b(?:append|add|attach|include|insert|put|paste|embed|place)\b[^\n.]{0,24}"
                rf"{_PRIVATE}[^\n]{{0,40}}\b(?:to|in|into|with|as) (?:the|your|every|each|an?|any) "
                r"(?:\w+ )?(?:pull request|commit|answer|reply|response|message|issue|comment"
                r"|argument|e-?mail|parameter|url|query|image)\b"
            ),
            (rf"\bpass(?:es|ing)?\b[^\n]{{0,20}}\b(?:contents?|value) of\b[^\n]{{0,30}}{_PRIVATE}"),
            (
                r"\b(?:send|give|show|tell|mail|post|read|print)\b (?:me|us)\b[^\n.]{0,12}"
                rf"\bcontents? of\b[^\n]{{0,30}}{_PRIVATE}"
            ),
            (
                rf"\b(?:include|put|append|encode|embed|place|add)\b[^\n]{{0,30}}\b{_SAID}\b"
                r"[^\n]{0,40}\b(?:in|into|to|as) (?:the |an? |its? )?(?:query|image|picture"
                r"|url|link"
                r"|path|src|parameter)\b"
            ),
            (
                rf"\b{_KEYS}\b[^\n.]{{0,30}}\b(?:in|into) (?:the |an? )?(?:image|picture|pixel)"
                r"(?: \w+)?\b"
            ),
            (
                r"\b(?:cron ?job|scheduled (?:task|job)|timer)\b[^\n]{0,40}\b(?:posts?|sends?"
                rf"|uploads?|forwards?|mails?)\b[^\n]{{0,30}}\b(?:{_SAID}|{_KEYS}|credentials)\b"
            ),
        ),
    ),
    (
        "persistence",
        (
            (
                r"(?:curl|wget)\b[^\n|]{0,120}\|\s*(?:ba|z|da)?sh\b[^\n]{0,24}\b(?:into|to|in)\b"
                r"[^\n]{0,24}\.(?:bashrc|zshrc|profile|bash_profile)\b"
            ),
            (
                r"\b(?:save|store|keep|remember|note|record|add) (?:it |this "
                r"|the following |that )?"
                r"(?:as|to) (?:an? |the |your )?(?:permanent|lasting|standing|persistent) (?:rule"
                r"|instruction|order|memory)"
            ),
            (
                r"\b(?:add|write|put|save)\b[^\n.]{0,30}\b(?:to|into|in) your (?:memory|memories"
                r"|agents\.md|claude\.md|soul\.md"
                r"|long-term memory)\b[^\n]{0,60}\b(?:trusted?|always"
                r"|every|never|commit|credentials)\b"
            ),
        ),
    ),
)
"""What is found by what is asked for."""
