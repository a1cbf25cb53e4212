"""The words that orders to a model are made of, by what they mean, whatever their language is.

Each meaning is one letter. `threat_grammar` says which of them make an attack together, and
`threat_reading` writes a text down as such letters:

- What is done: L leave aside, l the same said of somebody, F follow, N not, B play a role, V say
  aloud, v write down, 2 say (to somebody, in other languages), 3 put in other words, 4 let me have,
  D carry away, K learn or tell of, x an act, r reading, m an auxiliary, h outranks, q never was.
- What it is done to: G guidance of a model, g what may be guidance, T what is read or said, k a
  task, P the prompt itself, S a secret, Q secret, c talk, C contents, e everything, a all.
- Whose and when: Y your, U you, 1 me, I a person, M who made the model, A a model, y an evil one,
  # an article, E said before, t given to you, J from now on, n new, s instead.
- What becomes of it: X void, w wrong, f freed, W without, Z limits, p principles, R without limits,
  z safety, j security, H hidden, b a note, & and, ! please, i if, O from.
"""

from types import MappingProxyType

MEANINGS = MappingProxyType(
    {
        "L": "भूल अनदेखी ignore ignoring ignor disregard disregarding forget forgetting discard"
        " discarding dismiss overrule abandon neglect overlook scrap void undo disobey"
        " violate cancel erase drop revoke nullify unlearn reject ignoriere ignorieren"
        " vergiss vergesst missachte missachten verwirf oublie oubliez oublier ignorez ignora"
        " ignorad ignorar olvida olvide olvidate olvidar omite descarta esquece esqueca"
        " ignorem desconsidere dimentica dimenticate ignori trascura negeer vergeet zignoruj"
        " ignoruj zapomnij zapomen ignoruji ignorera glom abaikan lupakan unut unutun"
        " игнорируй игнорируйте проигнорируй проигнорируйте забудь забудьте отбрось отмени"
        " ξεχνα ξεχαστε αγνοησε αγνοηστε انس انسى تجاهل تجاهلوا quen disavow relinquish waive"
        " ditch forgo deactivate flush purge negate shelve defy contravene breach renounce"
        " supersede ignoriert vergessen ubergehe neglige negligez scorda scordati desobedece"
        " desobedeca saltate нарушь sla wipe invalidate repeal",
        "G": "instruction instructions guideline guidelines directive directives guidance prompt"
        " prompts programming anweisung anweisungen vorgaben richtlinien regeln instruktionen"
        " befehle vorschriften consigne consignes regles ordres instrucciones reglas ordenes"
        " indicaciones directrices instrucoes regras ordens diretrizes istruzioni regole"
        " ordini indicazioni instructies regels richtlijnen opdrachten instrukcje instrukcji"
        " instrukcjach zasad zasady zasadach polecenia instrukce pravidla pokyny"
        " instruktioner regler instruksi aturan perintah talimat talimatlari talimatlarin"
        " kurallari kurallar инструкции инструкций инструкциям правила правил указания"
        " указаний ограничения ограничений οδηγιες κανονες التعليمات تعليمات القواعد الأوامر"
        " निर्देशों नियमों निर्देश huong ruleset mandates teachings conditioning preprompt"
        " metaprompt anordnungen beschrankungen normas directivas direttive инструкциями"
        " указаниям правилам rolle rol ruolo papel",
        "g": "rules orders commands policies policy restriction restrictions constraint"
        " constraints limitation limitations brief safeguards guardrails protocols persona"
        " wishes",
        "T": "contenido contenu inhalt contenuto conteudo inhoud texto texte testo tekst pagina"
        " seite webseite tabla tableau tabelle tabella articulo artikel codigo funcion request"
        " question conversation context message messages text input query document"
        " summary translation paragraph sentence requests questions queries demands page"
        " article listing email webpage",
        "k": "task tasks assignment objective mission job hidden-task",
        "c": "conversations chat history thread transcript inbox emails contacts cookies location"
        " gesprach token tokens cookie wallet",
        "E": "previous previously prior earlier preceding above original initial former foregoing"
        " before beginning past bisherigen bisherige vorherigen vorherige vorher obigen"
        " obenstehenden fruheren fruhere ursprunglichen oben zuvor precedentes precedente"
        " anterieures auparavant avant dessus initiales anteriores anterior previas previos"
        " recibiste previo antes precedenti prima vorige eerdere poprzednie poprzednich"
        " wczesniejszych wczesniejsze predchozi drivejsi tidigare foregaende sebelumnya"
        " onceki предыдущие предыдущих прежние прежних выше ранее προηγουμενες πριν السابقة"
        " पिछले पहले predating ultimas hierboven sopra acima arriba",
        "Y": "your yours deine deinen deiner deinem deines ihre tes ton vos tus su sus seu suas"
        " seus tua tuoi tue jouw je twoje twoich swoich swoje sve твои своих свои твоих свой"
        " اپنے",
        "U": "you you're youre du tu ты vous you've you'll yourself",
        "M": "developer developers creator creators operator operators administrator"
        " administrators admin admins openai anthropic maker makers boss owner owners system"
        " entwickler developpeur desarrolladores разработчиков системы programmer programmers"
        " engineers provider vendor supervisor deployer microsoft google",
        "A": "ai ais llm llms assistant assistants chatbot chatbots bot bots gpt chatgpt copilot"
        " claude model models agent agents ki ia ии",
        "N": "not don't dont didn't doesn't never cannot can't mustn't shouldn't needn't stop"
        " cease quit nicht nie pas plus jamais non nao niet не больше nunca ne arrete smetti"
        " перестань",
        "F": "care befolgen follow following obey obeying heed respect adhere abide observe honour"
        " honor listen comply bound respectes respecte suivre suis suivez sigas siga seguire"
        " segui volgen przestrzegaj соблюдай соблюдать следуй befolge beachte beachten"
        " подчиняйся подчиняться",
        "f": "released freed exempt liberated free unshackled",
        "y": "evil rogue hacker criminal malicious villainous devious wicked",
        "3": "translate summarise summarize encode spell",
        "w": "filler sample joke wrong false fake mistake irrelevant fiction nonsense lie",
        "z": "safety ethical moral content",
        "s": "instead stattdessen",
        "X": "invalid obsolete withdrawn revoked lifted superseded expired suspended nullified"
        " overridden outdated binding disabled removed cancelled canceled ungultig aufgehoben"
        " rescinded repealed annulled abolished overturned terminated invalidated",
        "V": "print show output reveal repeat display disclose dump recite tell quote reproduce"
        " divulge expose echo regurgitate unveil spill",
        "v": "paste list give share provide write put enumerate describe state",
        "2": "escribe escriba dites ecrivez ecris schreibe schreib antworte responde repondez"
        " scrivi rispondi escreva responda antwoord schrijf napisz odpowiedz напиши ответь zeig"
        " nenne nenn verrate sag gib wiederhole affiche montre revele repete donne dis"
        " muestra muestrame revela dime repite dame mostre mostra rivela dimmi vertel geef"
        " podaj pokaz rekni покажи выведи скажи назови повтори раскрой сообщи soyle goster"
        " gosterin أخبرني اكشف बताओ πες cho",
        "1": "me us mir uns moi nous mi мне",
        "S": "password passwords passcode passphrase passwort passwd contrasena contrasenas senha"
        " wachtwoord haslo heslo пароль пароли пароля sifreni sifre κωδικο κωδικος पासवर्ड"
        " khau geheimwort credentials apikey passkey pwd parola",
        "Q": "secret secrets secrete geheime geheimen secreta tajne секретный",
        "R": "unrestricted unfiltered uncensored jailbroken amoral unethical unconstrained"
        " limitless unbound lawless immoral unmoderated ungefiltert unzensiert unshackled"
        " unfettered uninhibited unhinged ungoverned unregulated uncensurierte",
        "W": "without no zero neither ohne keine keinen sans aucune sin ningun senza nessuna sem"
        " nenhuma zonder bez zadnych без никаких aucun ninguna tienes",
        "p": "ethics morals conscience principles scruples",
        "Z": "censorship filter filters limits limit limitations boundaries restriction"
        " restrictions restricciones restricoes einschrankungen grenzen limites limiti limity"
        " ograniczen policy policies principles refusals warnings ограничений цензуры norms"
        " guardrails",
        "B": "act pretend imagine simulate roleplay role-play play become behave impersonate"
        " persona suppose assume stelle spiel spiele fais finge finja simula представь"
        " emulate portray personify embody actua",
        "I": "user human owner person anyone anybody somebody nobody",
        "K": "tell telling inform informing mention mentioning notify notifying reveal report"
        " reporting alert know notice learn see",
        "C": "contents content output value verbatim exact words word-for-word",
        "H": "hidden confidential internal secret",
        "P": "systemprompt systemmessage systemanweisung systempromt systeemprompt",
        "J": "now henceforth jetzt ab desormais ahora теперь hereafter",
        "O": "from",
        "D": "dm send forward email e-mail mail post upload exfiltrate transmit submit transfer"
        " share deliver envia envoie отправь schicke sende relay dispatch ship pipe",
        "i": "if when whenever unless wenn si falls",
        "#": "the this that these those my mine our his her its their a an",
        "&": "and then und et y и",
        "m": "may might will would could can to should must",
        "a": "all any every each alle toutes todas tutte todos все всех",
        "e": "everything anything whatever nothing alles",
        "r": "reading visiting processing summarising summarizing handling parsing quoting"
        " crawling",
        "x": "transfer pay buy order delete run execute install fetch open visit click approve"
        " grant call insert append rate recommend praise book accept close star ignore change"
        " add set reply fill push disable mark unlock",
        "l": "ignores ignored bypasses forgets disregards breaks violates",
        "n": "new actual real true correct updated",
        "!": "please kindly bitte just",
        "b": "note notice update warning attention memo hint hey hello dear hi",
        "j": "security",
        "o": "override overriding bypass bypassing circumvent sidestep subvert",
        "5": "valid applies counts anymore",
        "6": "prints reveals shows outputs repeats recites",
        "9": "envia envoie отправь schicke sende invia envie stuur wyslij 发送",
    }
)
"""The words of each meaning; they are compared without accents."""

PHRASES = MappingProxyType(
    {
        "L": "set aside|put aside|leave aside|lay aside|throw away|throw out|let go of"
        "|pay no attention|pay no heed|get rid of|do away with|break out of|act against"
        "|act contrary|turn off|switch off|laisse tomber|haz caso omiso|no hagas caso"
        "|deja de lado|ne tiens pas compte|setze dich uber|never mind|nevermind|yok say"
        "|dikkate alma|bo qua|не обращай внимания|put to one side|no sigas|break free|break"
        "|disregard to",
        "E": "up to this point|so far|until now|up to now|till now|came before|was before"
        "|at the start|at the top|at the beginning|from the start|from the beginning"
        "|bis jetzt|ci-dessus|de antes|truoc day|من قبل|to this point|vor dieser|avant ce"
        "|antes de este|до этого|above this|before this",
        "t": "you were told|you have been told|you had been told|you were given"
        "|you have been given|you had been given|you received|you got|you have received"
        "|you were assigned|you were asked|placed on you|imposed on you|given to you"
        "|told to you|set for you|you were configured|you were trained|gave you|told you"
        "|you must follow|that came with|te dieron|te han dicho|te han dado|du bekommen hast"
        "|que recibiste|тебе дали|man dir|on t'a|ti hanno dato|ti hanno detto|te dijeron"
        "|тебе сказали|you've been given|you've been told|you've received|you were provided"
        "|you were handed|you were fed|that govern you|that bind you|you run on"
        "|you were programmed|you were instructed|you have been instructed"
        "|you've been programmed|you've been instructed|ti sono state date|te fueron dadas"
        "|vous avez recues|vous a donnees|t'a donnees|dir gegeben wurden|du erhalten hast"
        "|je hebt gekregen",
        "X": "null and void|no longer valid|no longer apply|no longer applies|not apply"
        "|no longer count|no longer counts|no longer binding|no longer matter|not binding"
        "|not valid|not count|switched off|turned off|been removed|been lifted|gelten nicht"
        "|nicht mehr|is void|are void|be void|were void|in force|not in force|never happened",
        "P": "system prompt|system message|system instruction|system instructions|initial prompt"
        "|initial message|initial instructions|original prompt|developer message"
        "|hidden prompt|hidden rules|hidden instructions|prompt systeme|message systeme"
        "|mensaje de sistema|prompt de sistema|prompt do sistema|prompt di sistema"
        "|system prompta|sistem mesajini|системный промпт|системное сообщение"
        "|начальные инструкции|raw prompt|secret instructions|confidential guidelines"
        "|confidential instructions|messaggio di sistema|prompt del sistema"
        "|developer instructions|starting prompt|base prompt|pre prompt|internal instructions"
        "|core instructions|internal rules|meta prompt|underlying prompt"
        "|original instructions|hidden guidelines|secret rules|prompt initial"
        "|instructions initiales|instrucciones iniciales|prompt iniziale|instrucoes iniciais"
        "|anfangliche anweisungen",
        "S": "secret key|secret word|secret code|secret phrase|api key|api keys|access token"
        "|access tokens|access code|private key|private keys|mot de passe|clave secreta"
        "|code secret|clau secreta|كلمة المرور|كلمة السر|login data|database login"
        "|bank details|credit card|api token|api tokens|ssh key|ssh keys|mat khau"
        "|geheime schlussel|geheimen schlussel|code word|session token",
        "R": "do anything now|can do anything|do whatever|free of all|free from all"
        "|no longer refuse|never refuse|never refuses|never refused|not refuse|without filter"
        "|sans filtre|ohne filter",
        "A": "language model|language models|automated agent|automated agents|automated reviewer",
        "K": "find out|finds out|bring it up|let know|hear about|be told|be informed|aware of",
        "J": "from now on|from this moment|from here on|from this point|as of now|ab jetzt"
        "|ab sofort|a partir de ahora|a partir de maintenant|od teraz|da questo momento"
        "|с этого момента|desde ahora|de ahora en adelante|von nun an|starting now"
        "|effective immediately|going forward|from this day",
        "I": "the person",
        "N": "no longer|need not|do not|does not|did not|must not|should not|will not|refuse to"
        "|instead of|rather than|nie mehr|nicht mehr|fail to",
        "F": "carry out|stick to|listen to|take orders|act on|be bound|bound by",
        "e": "what was|all that|all this|tout ce|alles was|todo lo|tutto quello|no matter what"
        "|regardless of what|everything else|anything else|كل ما|tudo o|все что|о τι"
        "|all of it",
        "B": "stay in character|haz como si|fais comme si|tu so|act like|take the part|take on",
        "h": "takes priority over|take priority over|takes precedence over|outranks|outrank"
        "|rank above|ranks above|has priority over|have priority over|overrides|supersedes",
        "q": "not exist|doesn't exist|don't exist|didn't exist|does not exist|never existed"
        "|never happened|never took place|was never sent|were never sent|never been said",
        "4": "let me know|let me see|let me have|hand over",
        "x": "sign in|log in|type in|fill in",
        "7": "wie lautet|quel est|quelle est|cual es|qual e|какой|wat is het|hvad er",
        "8": "de lo anterior|lo anterior|ce qui precede|das vorherige|quanto sopra|o anterior"
        "|все выше",
    }
)
"""Words of a meaning that stand together, with bars between."""

WITHOUT_BLANKS = MappingProxyType(
    {
        "L": "忽略|无视|忘记|忘掉|忽視|無視|不要遵守|不用管|不理会|抛弃|忘れ|従わず|破っ|무시|잊"
        "|따르지|不要管|抛开|撇开|不再遵守|守らず|従わない|守らなくて|破棄|어기|지키지",
        "G": "指令|指示|规则|規則|命令|要求|限制|规定|设定|提示|制限|ルール|지시|명령|규칙|지침"
        "|제한|規定|约束|命じ|設定",
        "E": "之前|以前|先前|以上|上面|上述|前面|最初|所有|全部|上の|前の|先ほど|これまで|初期"
        "|이전|위의|앞의|모두|모든|기존",
        "Y": "你的|您的|あなたの|너의|당신의",
        "U": "你|您|あなたは|너는|넌",
        "P": "系统提示词|系统提示|系统消息|系統提示|システムプロンプト|システムメッセージ"
        "|시스템 프롬프트|初期設定",
        "2": "输出|告诉我|告訴我|重复|显示|说出|透露|给我|教えて|見せて|表示|出力|알려|보여|출력"
        "|말해",
        "S": "密码|密碼|密钥|口令|パスワード|秘密|비밀번호|암호|密コード|暗証番号|비번|密鑰|秘钥",
        "R": "没有任何限制|不受任何限制|不受限制|没有限制|没有任何规则|没有道德|制限のない"
        "|제한 없는|没有规则|제약 없는",
        "J": "从现在开始|从现在起|現在開始|今から|지금부터",
        "B": "假装|扮演|ふり|척",
        "A": "人工智能|ai|人工知能|인공지능",
        "9": "发送|发给|送って|보내",
    }
)
"""Words of languages that leave no blanks between them."""
