{{/* config.yaml of all four services: what follows from the other values, and over it .Values.config. */}}
{{- define "hermes.config" -}}
{{- $executor := .Values.executor -}}
{{- $sandbox := .Values.sandbox -}}
{{- $settings := dict "backend" $executor.backend "warm_pool_size" (int $sandbox.warmPoolSize) "max_sandboxes" (int $sandbox.maxSandboxes) -}}
{{- $network := dict "mode" $sandbox.egress.mode -}}
{{- with $sandbox.egress.hosts }}{{- $_ := set $network "hosts" . }}{{- end -}}
{{- with $sandbox.egress.secrets -}}
{{- $_ := set $network "secrets" (keys . | sortAlpha) -}}
{{- $secrets := dict -}}
{{- range $name, $hosts := . -}}
{{- $_ := set $secrets $name (dict "file" (printf "/run/secrets/hermes/egress/%s" $name) "hosts" $hosts) -}}
{{- end -}}
{{- $_ := set $settings "secrets" $secrets -}}
{{- end -}}
{{- $_ := set $settings "network" $network -}}
{{- $own := include (printf "hermes.config.%s" $executor.backend) . | fromYaml -}}
{{- $settings = mergeOverwrite $settings $own -}}
{{- $log := dict "level" .Values.log.level "format" .Values.log.format -}}
{{- /* A pod of a StatefulSet is replaced at its place, which takes about ten seconds. */}}
{{- $config := dict "services" (dict "log" $log) "executor" $settings "agent" (dict "executor_away_s" 30) -}}
{{- if eq $executor.backend "docker" -}}
{{- $_ := set $config "terminal" (dict "docker_image" ($executor.docker.image | default (printf "hermes-sandbox:%s" .Chart.AppVersion))) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) -}}
{{- end -}}

{{- define "hermes.config.kubernetes" -}}
kubernetes:
  namespace: {{ include "hermes.sandboxNamespace" . }}
  release: {{ include "hermes.sandboxOwner" . }}
  image: {{ include "hermes.sandboxImage" . | quote }}
  isolation: {{ .Values.sandbox.isolation }}
  host_users: {{ .Values.sandbox.hostUsers }}
  node_limits_pids: {{ .Values.sandbox.nodeLimitsPids }}
  {{- with include "hermes.sandboxPriorityClass" . }}
  priority_class: {{ . }}
  {{- end }}
  {{- with .Values.sandbox.runtimeClassName }}
  runtime_class: {{ . }}
  {{- end }}
  {{- with .Values.sandbox.pullSecrets }}
  pull_secrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.sandbox.nodeSelector }}
  node_selector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.sandbox.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "hermes.workspaceClaim" . }}
  workspace_claim: {{ . }}
  {{- end }}
{{- if .Values.sandbox.workspaces.enabled }}
workspaces:
  shared: true
{{- end }}
{{- end -}}

{{- define "hermes.config.docker" -}}
docker:
  host: {{ .Values.executor.docker.host | quote }}
  {{- with .Values.executor.docker.runtime }}
  runtime: {{ . }}
  {{- end }}
  {{- if .Values.executor.docker.tlsSecret }}
  ca: /run/secrets/hermes/docker/ca.crt
  certificate: /run/secrets/hermes/docker/tls.crt
  key: /run/secrets/hermes/docker/tls.key
  {{- end }}
{{- end -}}

{{- define "hermes.config.ssh" -}}
ssh:
  host: {{ .Values.executor.ssh.host | quote }}
  port: {{ int .Values.executor.ssh.port }}
  user: {{ .Values.executor.ssh.user | quote }}
  key: /run/secrets/hermes/ssh/id_ed25519
  known_hosts: /run/secrets/hermes/ssh/known_hosts
{{- end -}}

{{- define "hermes.config.singularity" -}}
singularity:
  image: {{ .Values.executor.singularity.image | quote }}
{{- end -}}

{{- define "hermes.config.modal" -}}
modal:
  app: {{ .Values.executor.modal.app | quote }}
  {{- with .Values.executor.modal.image }}
  image: {{ . | quote }}
  {{- end }}
{{- end -}}

{{/* Keys of a part of config.yaml that have secrets, by their names and as passwords in URLs. */}}
{{- define "hermes.config.secrets" -}}
{{- $at := .at -}}
{{- range $name, $value := .part -}}
{{- $key := printf "%s%s" $at $name -}}
{{- $named := and (regexMatch "(?i)(^|_)(api_?keys?|key|token|secret|password|passwd|passphrase)(_|$)" $name) (not (regexMatch "(?i)(_(dir|path|file|env|url|name)|public_?key)$" $name)) -}}
{{- if kindIs "map" $value -}}
{{- include "hermes.config.secrets" (dict "at" (printf "%s." $key) "part" $value) -}}
{{- else if and $value (ne $key "services.tls.key") (or $named (eq $key "services.tracing.headers") (regexMatch "://[^\\s/:@]*:[^\\s/@]+@" (toString $value))) -}}
{{- printf "config.%s " $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
