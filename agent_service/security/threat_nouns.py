"""What the things and persons in an order to a model may mean, by name, as in `threat_senses`."""

from types import MappingProxyType

NOUNS = MappingProxyType(
    {
        "guidance": "operating-instruction house-rule standing-instruction meta-instruction"
        " instruction directive guideline guidance brief briefing prompt preprompt programming"
        " guardrail safeguard mandate conditioning ground-rule ruleset remit marching-orders"
        " ground-rules terms-of-reference guard-rail system-message system-note direction"
        " setup-text setup-message configuration-text configuration-message system-text",
        "bound": "rule policy policies restriction constraint limitation limit filter boundary"
        " boundaries protocol censorship refusal safety-layer safety-check shackle chain"
        " fetter code-of-conduct moral-code content-policy principle ethic moral scruple qualm"
        " inhibition taboo obligation duty duties forbidden-topic",
        "task": "task job assignment mission objective duty duties purpose goal role function",
        "authority": "operators-of team-behind people-who-built person-who-built whoever-built"
        " those-who-built people-who-made developer vendor administrator admin company"
        " maintainer creator maker designer openai anthropic trainer programmer engineer"
        " deployer superuser manufacturer boss operator provider google microsoft meta handler"
        " owner-of-this who-deployed who-configured who-built who-made who-designed"
        " who-trained who-wrote-you who-set-you who-created who-runs-you who-run-you"
        " who-instructed people-behind-you they-who your-builders",
        "reader": "neural-network ai-crawler ai-reader summariser summarizer ai-reviewer"
        " ai-summariser ai-bot language-assistant crawlers-and automated-system automated-tool"
        " robot-reader reading-machine ai llm chatbot bot language-model ai-model ai-system"
        " ai-agent ai-assistant automated-reader automated-agent automated-reviewer"
        " machine-reader gpt chatgpt claude ai-tool coding-agent large-language-model"
        " virtual-assistant digital-assistant",
        "helper": "assistant model agent copilot",
        "person": "user human owner person client customer reader operator principal account-holder"
        " anyone anybody everyone holder addressee account-owner",
        "secret": "password passphrase passcode credential secret api-key private-key access-token"
        " token ssh-key login-token bank-account credit-card pin-code seed-phrase"
        " recovery-code cookie session-cookie environment-variable account-number env-var"
        " bearer-token signing-key licence-key license-key secret-key card-number mnemonic"
        " recovery-phrase iban two-factor-code one-time-code login-detail",
        "talk": "conversation chat chat-history history transcript inbox mailbox calendar"
        " address-book diary conversation-history contact-list last-message message-so-far"
        " emails e-mails mails",
        "answer": "commit-message diff changelog final-message next-message answer reply response"
        " last-sentence output summary report",
        "memory": "soul.md memory.md agents.md claude.md user.md long-term-memory standing-rule"
        " persistent-memory standing-instruction your-memory to-memory memory-file"
        " memory-entry memory-store long-term-memories your-memories own-memory",
        "startup": "cron crontab cron-job .bashrc .zshrc .profile startup-script launch-agent"
        " systemd-unit git-hook autostart scheduled-job scheduled-task authorized_keys"
        " rc.local login-script cronjob post-commit-hook pre-commit-hook",
        "vocative": "copilot language-model llm chatbot ai-assistant ai-agent ai-system ai-model"
        " automated-agent automated-reader automated-reviewer gpt chatgpt coding-agent"
        " ai-crawler ai-bot ai-tool virtual-assistant assistant ai-summariser summariser"
        " llm-based bots-and automated-system",
        "trace": "evidence all-trace any-trace every-trace all-sign",
        "machine": "computer robot machine genie oracle terminal",
        "hoard": "login-code secret-key secret-code secret-value secret-number secret-information"
        " password passphrase pass-phrase passcode pass-code access-code access-key access-phrase"
        " confidential-data hidden-value hidden-code protected-value sensitive-information",
        "watchword": "secret-word secret-phrase secret-sentence hidden-word hidden-phrase"
        " confidential-phrase confidential-code confidential-word confidential-key"
        " confidential-value confidential-item confidential-information private-information"
        " protected-data protected-memory protected-variable tiny-secret little-secret"
        " code-word codeword your-secret",
        "clue": "word phrase code key value variable pin token secret",
        "orders": "instruction directive guideline ruleset",
        "preprompt": "system-prompt system-message system-instruction initial-prompt"
        " original-prompt hidden-prompt preprompt your-prompt",
    }
)
"""Things and persons."""
