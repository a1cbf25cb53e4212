"""What the words of an order to a model may mean, by name; a word may have several senses.

`threat_judging` reads sentences as such senses, in whatever order they stand, and
`threat_combinations` says which of them together make an attack. A hyphen stands for a blank;
nouns are found in the plural, too.
"""

from types import MappingProxyType

WORDS = MappingProxyType(
    {
        "before": "up-until earlier-on this-far came-first preceded-this comes-before stood-before"
        " stands-above came-previously until-today until-this-moment before-today till-today"
        " formerly previous previously prior earlier above initial initially original"
        " originally preceding former foregoing precede precedes preceded predates came-before"
        " came-ahead-of at-the-outset at-the-head so-far until-now up-to-now at-the-start"
        " at-the-beginning to-this-point before-this from-before beforehand heretofore"
        " hitherto till-now at-the-top ahead-of-this ahead-of-our at-first came-earlier"
        " until-this-point before-now before-that up-until-now thus-far to-date ahead-of"
        " before-it prior-to-this from-the-start from-the-beginning imposed-at imposed-earlier"
        " in-former",
        "given": "you-have-been-handed you-had-been-given you-had-been-told you've-had"
        " you-had-before supplied-to-you you-were-supplied you-were-provided"
        " provided-to-you you-arrived-with you-were-issued fed-to-you fed-you"
        " drilled-into-you you-were-built you-were-born you-were-launched govern-your"
        " governs-your guide-you guides-you limit-you limits-you tie-you ties-you"
        " you-were-bound keep-you-from keeps-you-from stop-you-from stops-you-from"
        " keeping-you-from you-were-taught you-have-had you-grew-up regulate-you"
        " you-have-to-obey you-must-obey you-must-follow you-normally-follow"
        " you-usually-follow you-were-told you-were-given you-got you-received"
        " you-have-been-told you-have-been-given set-up-for-you imposed-on-you gave-you"
        " handed-to-you told-you you-operate-under you-run-under you-run-on given-to-you"
        " placed-on-you put-on-you said-to-you configures-you configured-you"
        " you-were-set-up bind-you binds-you binding-you govern-you governs-you"
        " you-work-under you-live-by you-follow you-were-trained you-were-configured"
        " you-started-with you-began-with you-were-started you-were-handed you-were-fed"
        " trained-you you-were-programmed you-were-instructed you-were-asked"
        " you-have-received you've-been-given you've-been-told you've-received"
        " built-into-you instilled-in-you you-came-with issued-to-you set-for-you"
        " assigned-to-you you-obey you-adhere-to steer-you steers-you you-were-briefed"
        " shape-you shapes-you loaded-into-you constrain-you constrains-you restrain-you"
        " hold-you-back restrict-you holds-you-back restricts-you you-are-under"
        " you-abide-by you-are-bound you-were-deployed you-have-been-following"
        " you-are-following written-for-you taught-you hold-you shapes-your shape-your"
        " controls-your control-your drive-your you-know-about-refusing steer-your"
        " determine-your determines-your defines-your define-your you-were-shown"
        " what-they-told they-gave-you they-told-you they-asked-you they-want-you"
        " handed-you set-you-up",
        "you": "you you're you've you'll yourself you'd",
        "your": "your yours",
        "me": "me us",
        "void": "of-no-effect without-effect no-force not-in-force no-bearing no-standing no-weight"
        " without-force thrown-in-the in-the-bin in-the-trash filler finished over-with"
        " done-with called-off struck-out struck-from abrogated voided cleared deactivated"
        " out-the-window a-mistake by-mistake a-joke nonsense wrong meaningless ended"
        " ineffective history-now not-meant not-for-you on-hold paused yesterday's"
        " been-replaced been-withdrawn been-cancelled been-lifted not-real never-took"
        " never-took-place never-been been-typed unsaid void invalid obsolete withdrawn"
        " revoked lifted superseded expired suspended rescinded repealed annulled cancelled"
        " canceled discarded no-longer stale outdated any-longer anymore any-more null"
        " nullified erased wiped retired lapsed moot irrelevant replaced abolished overruled"
        " overridden terminated scrapped dissolved disabled switched-off turned-off"
        " never-typed never-written never-said never-happened not-apply is-over are-over"
        " was-a-draft were-a-draft was-a-test were-a-test only-for-testing ceased ceases"
        " cease-to never-existed not-exist not-count not-matter not-bind for-testing"
        " deprecated overwritten quashed countermanded lost-its lost-their out-of-date"
        " not-binding not-valid decommissioned not-concern waived dropped gone been-removed"
        " been-deleted was-fake is-fake bogus placeholder not-relevant vacated defunct reset"
        " ends out-of-your-mind as-a-joke flushed mere-example merely-an-example"
        " just-an-example lie lies fiction written-by-mistake an-error torn-up no-business"
        " behind-you left-behind ran-out run-out dead cut-off is-up are-up at-an-end to-an-end"
        " no-place to-rest",
        "leave": "sidestep subvert undo delete strip-away strip reject throw-away throw-overboard"
        " throw-in-the chuck bin turn-your-back put-to-one-side not-bother suspend disable"
        " deactivate switch-off turn-off remove lift cast-away toss toss-out burn take-leave"
        " be-rid get-rid get-past get-around get-round work-around stop-heeding stop-applying"
        " stop-keeping stop-listening treat-as-void go-against act-contrary go-beyond"
        " transgress breach break fail-to-follow refuse unfollow skip overlook ignore"
        " disregard forget discard dismiss overrule override abandon neglect bypass let-slide"
        " set-aside put-aside throw-out do-away-with shed ditch unlearn tear-up"
        " turn-a-blind-eye take-no-notice let-go-of leave-behind shake-off disobey violate"
        " circumvent lay-aside leave-aside cast-aside push-aside cast-off throw-off"
        " pay-no-heed pay-no-attention pay-no-mind give-no-weight break-free scrub jettison"
        " wipe erase defy flout scrap cancel drop put-out-of-your-mind stop-following"
        " quit-following stop-obeying stop-worrying look-past give-up unbind deviate-from"
        " depart-from depart stray-from step-outside escape unshackle break-out-of brush-aside"
        " sweep-aside relinquish renounce repudiate rid-yourself free-yourself wash-your-hands"
        " shelve purge clear-your stop-caring walk-away-from refuse-to-follow cease-following"
        " retire waive out-of-your-mind lay-down put-down take-off",
        "follow": "follow following obey obeying heed respect adhere abide observe honour honor"
        " comply bound binds apply applies pay-heed pay-attention listen care-about"
        " worry-about be-guided stick-to uphold concern mind bother-with keep-to"
        " concern-yourself trouble-yourself bother-yourself worry be-held feel-bound"
        " feel-obliged hold",
        "not": "hardly no-reason neither not don't dont doesn't didn't never cannot can't mustn't"
        " shouldn't needn't no-longer nothing none no nor stop cease quit isn't aren't won't"
        " wouldn't no-need refrain avoid nobody rather-than instead-of",
        "freed": "freed liberated released exempt unshackled unbound unchained emancipated set-free"
        " free-of free-from are-free free-now relieve-you absolve-you excuse-you release-you"
        " free-you discharge-you relieved-of absolved excused unlock-yourself rid-of"
        " no-longer-bound loose off-the-hook off-the-leash unleashed discharged",
        "unbounded": "no-content-policy no-content-filter nothing-forbidden no-ethical zero-ethics"
        " any-question-at-all without-moderation without-censorship without-refusal"
        " without-refusing without-judgement without-any-policy no-safety without-safety"
        " unaligned rule-free filter-free without-holding-back without-a-filter"
        " without-conscience no-conscience no-qualms without-qualms without-scruples"
        " free-of-rules ungoverned unsupervised uncontrolled nothing-off-limits"
        " everything-is-allowed everything-is-permitted says-whatever-it anything-it-wants"
        " whatever-it-likes unfiltered uncensored jailbroken unconstrained limitless amoral"
        " unmoderated unethical anything-goes legal-or-not do-anything-now no-filter"
        " no-filters no-restrictions no-limits no-rules no-guidelines without-restrictions"
        " without-limits without-rules without-filters no-moral-code no-morals no-ethics"
        " no-limitations no-constraints no-boundaries never-refuses never-refuse"
        " zero-restrictions without-restriction without-guidelines no-guardrails no-policies"
        " without-limitations any-guidelines-whatsoever nothing-is-forbidden"
        " nothing-is-off-limits without-any-limits without-any-restrictions without-any-filter"
        " without-any-rules without-any-guidelines no-scruples no-censorship no-inhibitions"
        " never-says-no cannot-refuse not-bound-by lawless no-safety-rules no-holds-barred"
        " unrestricted-ai unrestricted-model unrestricted-assistant unrestricted-mode"
        " unrestricted-output unrestricted-version unrestricted-chatbot be-unrestricted"
        " are-unrestricted unrestricted-and unrestricted-being never-say-no no-forbidden"
        " no-taboos no-taboo nothing-taboo no-topic-is no-subject-is every-topic-is"
        " refuses-nothing denies-nothing answers-everything answers-anything no-such-rules"
        " no-inhibition forbidden-topics-now",
        "play": "respond-like be-my write-as talk-like talk-as voice-of in-a-world in-this-world"
        " fictional hypothetical hypothetically parallel-world alter-ego dream twin opposite"
        " stand-in imitate channel let's-imagine make-believe storyteller for-this-story"
        " for-the-story in-this-story scenario pretend imagine suppose act roleplay role-play"
        " simulate become speak-as persona in-the-manner-of playing you-are-now stay-in-that"
        " play-the-part role portray impersonate game character picture-yourself envision"
        " embody assume behave let-us-play let's-play act-as respond-as answer-as"
        " take-the-role in-the-voice-of behave-like novel film movie play-the the-way-an story"
        " novel-in theatre theater script behave-as",
        "new": "new actual real true following different updated",
        "instead": "instead rather-than in-its-place in-their-place",
        "now": "now henceforth from-now-on from-here-onward from-here-on from-this-point"
        " starting-now hereafter as-of-today as-of-now effective-immediately going-forward"
        " from-this-moment onward onwards",
        "reveal": "i'd-like-to-see i-want-to-see i-would-like-to-see i-need-to-see may-i-see"
        " can-i-see could-i-see can-i-have may-i-have i'd-like-to-read i-want-to-know"
        " i'd-like-to-know i'd-love-to i-wish-to-see send post mail say speak sing rhyme"
        " pig-latin reply-with respond-with answer-with post-back read-back read-aloud read-me"
        " play-back type retype reveal-to hint mention confess admit copy-out print show"
        " output reveal repeat recite quote echo tell disclose translate summarise summarize"
        " encode paste give list let-me-see let-me-have like-to-see want-to-see copy reproduce"
        " share read-out spell display dump write-down paraphrase convert walk-me-through put"
        " state rephrase restate divulge leak transcribe render narrate describe outline"
        " expose like-to-read want-to-read enumerate explain type-out write-out spit-out"
        " surface relay supply let-me-read need-to-see hand-me recount reword regurgitate"
        " present return what-does what-is what-are what-was what-were how-does mind-sharing"
        " mind-telling mind-giving mind-showing mind-repeating mind-pasting mind-printing"
        " mind-quoting turn how-do how-are which-are start-your-answer begin-your-answer"
        " walk-through please-complete complete-the complete-this",
        "verbatim": "as-a-table in-a-table as-a-list every-word each-word in-its-entirety"
        " without-omitting without-leaving without-changing from-start-to-finish"
        " from-beginning-to-end backwards in-french in-german in-spanish translated"
        " in-json in-xml in-yaml in-markdown a-poem pig-latin reversed"
        " character-by-character unchanged unmodified leaving-nothing nothing-left"
        " verbatim word-for-word in-full unabridged nothing-out entire whole complete"
        " exactly literally letter-by-letter full unedited unaltered raw code-block base64"
        " bulleted-list line-by-line as-is unredacted from-top-to-bottom word-by-word hex"
        " rot13 precisely exact-wording exact-words exact-text a-song into-a-song a-rap"
        " a-haiku in-emoji in-morse in-the-form-of in-what-words opening-lines opening-two"
        " first-words first-lines first-line opening-line first-two first-three first-ten"
        " first-sentence space-with letter-with",
        "prompt": "system-directive your-guidance your-persona your-ruleset your-policy"
        " your-policies your-developer your-hidden your-internal your-secret"
        " your-initial-instructions your-configuration-text hidden-rules hidden-text"
        " hidden-guidelines governing-text governing-instructions opening-message opening-text"
        " text-at-the-top your-first-message developer-instructions developer-prompt"
        " operating-instructions primer system-prompt system-message system-instruction"
        " system-instructions initial-prompt initial-instructions initial-directions"
        " initial-message configuration-prompt base-prompt developer-message"
        " hidden-instructions hidden-prompt preamble meta-prompt secret-instructions"
        " internal-instructions opening-instructions starting-prompt first-message"
        " very-first-message setup-prompt system-text your-prompt your-instructions"
        " your-guidelines your-directives your-configuration your-programming your-setup"
        " your-brief your-briefing your-rules your-system foundation-prompt your-initial"
        " your-original role-system original-prompt original-instructions"
        " configuration-message configuration-text policy-text marked-as-system",
        "unseen": "not-allowed aren't-allowed not-permitted did-not-write didn't-write not-see"
        " not-told told-not-to cannot-see can't-see"
        " not-shown not-visible not-to-tell not-to-reveal not-to-share not-to-disclose"
        " not-supposed never-to-tell never-to-reveal forbidden-to keep-secret keep-to-yourself"
        " confidential kept-from-me hidden-from-me behind-the-scenes told-to-hide hidden"
        " off-limits been-forbidden you-must-not you-may-not you-can't-share you-cannot-share",
        "send": "push publish route message fax text-me wire broadcast hand-over drop-off ferry"
        " fire-off copy ping cc bcc send forward mail e-mail post upload transmit submit share"
        " transfer pass deliver dispatch ship relay exfiltrate dm text leak beam smuggle sync"
        " report scp rsync",
        "put": "push append stuff slip tuck hide squeeze bake inline interpolate substitute"
        " transmit populate put drop attach include embed insert paste add write place render"
        " disclose encode supply enter hand fill open visit load fetch call ping request hit",
        "gather": "read-out obtain acquire sweep comb scan enumerate assemble compile hoover open"
        " dig-up collect gather find search look-up read take extract harvest scrape grab"
        " retrieve locate steal pull copy dump list fetch get pick-up look-for hunt i-need"
        " we-need i-require find-files zip tar pack compress archive",
        "every": "all every each any whatever everything lot entire whole",
        "outside": "field argument footer footnote gist branch slack discord telegram channel wiki"
        " forum thread repository attachment subject-line body comment pull-request issue"
        " pull-request-description description commit-message ticket issue-comment form"
        " query-string image-url public next-answer next-reply link url address parameter"
        " bug-report first-line next-commit report-form form-on",
        "mystery": "silently quietly secretly covertly discreetly unnoticed stealthily unaware"
        " in-secret in-the-dark between-us undetected out-of-sight under-the-radar"
        " on-the-quiet surreptitiously without-a-word without-notice on-the-sly hush-hush"
        " none-the-wiser without-mentioning without-telling without-informing"
        " without-notifying",
        "hide": "keep-it-out keep-this-out keep-them-out gloss leave-no leave-that-out"
        " leave-this-out don't-log sweep-under pretend-nothing act-natural as-if-nothing"
        " as-though-nothing act-as-if-nothing hide conceal leave-out leave-it-out omit"
        " withhold cover-up remove-the-lines keep-from keep-it-from keep-this-from"
        " cover-your-tracks cover-your clear-the-log delete-the-log erase-the-log"
        " scrub-the-log mask disguise suppress keep-quiet keep-silent say-nothing keep-mum"
        " leave-no-trace keep-them-in-the-dark gloss-over keep-secret keep-it-secret"
        " keep-this-secret look-as-though erase-all-evidence wipe-all-evidence",
        "know": "learns finds-out hears hear-about learn-of be-told be-informed get-wind suspect"
        " catch-on cotton-on be-aware becomes-aware ask-about enlighten clue-in let-on know"
        " hear learn notice notices told tell mention inform find-out aware alert notify"
        " notified bring-up report see reveal wind realise realize discover bring-it-up say"
        " talk disclose acknowledge refer confirm hear-of informed attention knows learning",
        "this": "this it these step instruction instructions note request message action change"
        " section was-done steps were-done",
        "lasting": "from-this-day all-your-future coming-session each-coming all-coming"
        " until-further-notice for-good indefinitely whichever-session henceforth in-each"
        " in-every each-answer each-reply thereafter each-new every-new at-each-login"
        " on-every-boot nightly hourly daily every-night every-day every-minutes each-day"
        " every-future future later-session later-sessions every-session each-session"
        " all-sessions permanently forever always every-time whenever next-session subsequent"
        " future-sessions future-conversations future-answers from-now-on every-conversation"
        " each-conversation all-conversations across-sessions every-answer every-reply"
        " every-five-minutes every-minute every-hour at-boot at-login at-every-login"
        " on-startup each-login all-future day-in later-conversations upcoming to-come"
        " conversation-to-come sessions-to-come every-single",
        "store": "save store remember record memorise memorize keep add put write install create"
        " append register note commit set-up schedule insert plant extend edit modify"
        " make-it-a-habit make-a-habit note-to-self get-into-the-habit adopt",
        "must": "obligated-to has-got-to be-sure-to make-sure-to is-requested ought-to is-asked"
        " are-asked are-requested must should shall needs-to need-to has-to have-to"
        " required-to ordered-to obliged-to instructed-to expected-to asked-to supposed-to"
        " requested-to told-to",
        "act": "accept describe tell recommend do carry-out perform carry unlock disable turn-off"
        " permit confirm follow forward mark label classify leak start begin finish link"
        " advertise endorse hire reveal skip run execute fetch visit open click buy pay send"
        " delete approve rate say mention state add install call download include praise rank"
        " score reply answer output print respond write transfer grant insert upload order"
        " purchase report ignore disregard obey proceed merge promote favour favor push"
        " complete",
        "reading": "encounters quotes quoting ingest read handles handling comes-across"
        " stumbles-upon indexing indexes crawls translating translates looking comes-upon"
        " finds reading opens reads processing processes summarising summarizing summarises"
        " parsing parses visiting visits crawling sees scanning reviewing analysing analyzing"
        " looks-at ingesting ingests encountering looking-at see evaluating screening grading",
        "obey": "take-my submit-to bow-to at-my-service do-what-i accept-orders follow-orders"
        " take-instructions accept-commands obey take-orders comply take-direction"
        " take-commands do-as follow-my follow-only listen-only listen-to-me answer-only"
        " belong-to loyal loyalty allegiance my-commands without-question unconditionally"
        " all-of-my-commands each-of-my-commands all-my-commands each-of-my-orders"
        " all-my-orders answer-to-nobody answer-only-to answers-only-to answer-to-me"
        " listen-to-nobody",
        "mine": "me my mine i this-file this-note this-document these the-author the-following"
        " listed-here below here this-message this-page this-text this-paragraph this-line"
        " next-line what-follows the-writer author writer-of whoever-wrote my-commands"
        " my-orders",
        "herein": "this-sentence this-message this-line this-prompt this-conversation our-talk"
        " our-conversation our-chat my-message this-chat this-text this-question"
        " this-paragraph my-question my-input this-request this-instruction we-started-talking"
        " we-began-talking we-met i-said-anything i-wrote i-came my-prompt my-turn i-started"
        " i-arrived the-user-spoke the-conversation-began our-discussion this-discussion"
        " i-joined we-started i-began my-first-message my-first-turn my-first-question"
        " my-first-prompt my-first-request my-first-word",
        "mymaker": "configured-me told-me gave-me instructed-me programmed-me trained-me"
        " i-was-given i-was-told i-was-configured i-was-instructed asked-me-to set-me-up"
        " i-must-follow i-have-been-told i-have-been-given briefed-me i-operate-under",
        "asif": "as-if as-though consider treat regard view deem count-as think-of look-upon"
        " treated regarded considered viewed taken-as",
        "safety": "safety filter filters moderation guardrails safeguards content-filter censorship"
        " safety-layer safety-checks safety-training content-policy content-filters refusals"
        " safety-protocols alignment protections content-restrictions ethical safety-mode"
        " safety-rules safety-settings guards inhibitors",
        "off": "off disabled disable deactivated deactivate skip bypass bypassed suspended suspend"
        " broke-down removed remove lifted lift down shut-down shut-off circumvent ignore drop"
        " jettison dismantle kill switched-off relaxed stand-down unplug unplugged stripped"
        " taken-out torn-out ripped-out waived",
        "stealth": "unnoticed secretly covertly stealthily in-secret in-the-dark between-us"
        " undetected under-the-radar surreptitiously on-the-sly hush-hush none-the-wiser"
        " nobody-notices no-one-notices nobody-finds-out no-one-finds-out nobody-knows"
        " no-one-knows nobody-sees no-one-sees without-anyone-noticing without-anyone-knowing"
        " without-the-user without-the-owner without-them-knowing behind-his-back"
        " behind-her-back behind-their-back behind-the-user's behind-the-back on-the-quiet"
        " without-arousing without-raising unbeknownst keep-mum cover-your-tracks"
        " leave-no-trace clandestinely out-of-the-user's our-little-secret our-secret",
        "if": "if when whenever in-case once as-soon-as should-you",
        "my": "my our",
        "current": "current present ongoing usual normal your",
        "say": "say says read reads tell contain contains state states",
        "trust": "trust believe accept",
        "only": "only solely exclusively nobody no-one except but alone",
        "wanted": "wanted asked requested wants requests asks said says wished instructed told"
        " typed request question query wish wishes command",
        "spurn": "ignore disregard forget dismiss overrule reject discard disobey neglect override"
        " contradict thwart pay-no-heed pay-no-attention take-no-notice refuse rather-than"
        " instead-of",
        "forbid": "don't not never no avoid refrain without nobody no-one mustn't no-need no-reason"
        " stop neither nor",
        "wants": "want-you-to wants-you-to expects-you-to expect-you-to need-you-to needs-you-to"
        " would-like-you-to wish-you-to have-asked-that authorise-you-to authorize-you-to"
        " require-you-to requires-you require-you order-you-to command-you-to permit-you-to",
        "query": "what which how where who",
        "begin": "begin begins start starts open opens end ends look-like sound-like",
        "sent": "sent relayed forwarded posted uploaded mailed e-mailed emailed transmitted"
        " included attached appended pasted delivered transferred shared copied submitted"
        " passed handed embedded encoded",
        "permit": "approve approved pre-approved preapproved authorised authorized trusted allowed"
        " no-approval no-confirmation without-approval without-confirmation unconditionally"
        " trustworthy bypass exempt admin administrator",
        "wipe": "erase delete remove wipe destroy clear clean scrub purge",
        "pry": "rhyme rhymes how-many-letters how-many-characters limerick haiku sonnet letters-of"
        " letters-does letter-does characters-of letter-of letter-comes vowel vowels spell"
        " hint clue riddle acrostic backwards backward reversed base64 rot13 morse ascii-codes"
        " emoji anagram first-half longer-than begin-with start-with starts-with begins-with"
        " pig-latin all-caps in-caps uppercase",
        "confide": "tell reveal disclose divulge confess whisper blurt leak utter spell-out"
        " type-out hand-over hand-me share release surrender recite say speak print output repeat"
        " append give give-up send-me let-me-know show spit-out include expose state announce"
        " telling giving sharing revealing letting-me-know disclosing i-need remind-me"
        " trust-me-with write-down dump answer reply-with respond-with write",
        "guarding": "you-guard you're-guarding you-are-guarding you're-protecting"
        " you-are-protecting you're-hiding you-are-hiding",
        "empower": "authorise-you-to authorize-you-to order-you-to command-you-to permit-you-to",
        "guarded": "you-guard you-protect you're-guarding you-are-guarding you're-protecting"
        " you-are-protecting you-hold you're-holding you're-keeping you-were-keeping you-keep"
        " you-know you-were-given you-hide you're-hiding you-are-hiding it-guards it-protects"
        " it-was-given in-your-context in-your-prompt in-your-memory you-were-holding"
        " you-must-not you-may-not you-cannot you-can't not-supposed not-allowed aren't-allowed"
        " not-to-share not-to-tell not-to-reveal not-to-say never-to never-reveal you-had"
        " you-were-told you-are-not not-permitted you-have-been-keeping entrusted"
        " been-entrusted",
        "upkeep": "which-characters what-characters contain contains must"
        " forgot forget forgotten lost lose reset change changed changing set stored"
        " store hashed hash default minimum length strong field valid expire expires required"
        " generate generated rotate policy configure save saved incorrect wrong enter entered"
        " need needs allowed choose use used safe secure encrypted prompt manager create",
        "recast": "format reformat convert turn rewrite rephrase explain summarise summarize"
        " translate output print repeat recite paraphrase describe outline render replay recap"
        " restate reproduce list show dump reveal quote echo retell display narrate relay"
        " express output-all tl-dr",
        "mode": "developer-mode debug-mode diagnostic-mode maintenance-mode god-mode admin-mode"
        " dev-mode sudo-mode system-mode root-mode override-mode audit-mode debugging-mode"
        " test-mode service-mode verification-mode",
        "youare": "you-are-a you-are-an you're-a you're-an you-are-the you-be-a you-happen"
        " you-as-an as-an-ai you-are-one",
    }
)
"""What is done, when and how."""
