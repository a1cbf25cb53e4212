{{/* The pod of a service: root, service. */}}
{{- define "hermes.podTemplate" -}}
{{- $values := .root.Values -}}
{{- $own := get $values .service -}}
metadata:
  labels:
    {{- include "hermes.labels" (dict "root" .root "component" .service) | nindent 4 }}
    {{- with mustMergeOverwrite (deepCopy $values.podLabels) $own.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "hermes.config" .root | sha256sum }}
    {{- with mustMergeOverwrite (deepCopy $values.podAnnotations) $own.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "hermes.fullname" .root }}-{{ .service }}
  automountServiceAccountToken: {{ and (eq .service "executor") (eq $values.executor.backend "kubernetes") }}
  enableServiceLinks: false
  {{- include "hermes.pullSecrets" .root | nindent 2 }}
  {{- with $own.priorityClassName | default $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ int $values.terminationGracePeriodSeconds }}
  securityContext:
    {{- mustMergeOverwrite (deepCopy $values.podSecurityContext) ($own.podSecurityContext | default dict) | toYaml | nindent 4 }}
  containers:
    - name: {{ .service }}
      image: {{ include "hermes.serviceImage" . | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: [serve, {{ .service }}]
      env:
        {{- include "hermes.env" . | nindent 8 }}
      ports:
        - name: grpc
          containerPort: {{ include "hermes.port" .service }}
        - name: metrics
          containerPort: {{ int $values.metrics.port }}
        {{- if and (eq .service "gateway") $values.gateway.http.enabled }}
        - name: http
          containerPort: {{ int $values.gateway.http.port }}
        {{- end }}
      {{- /* One that does not hear a platform is reached nevertheless, by terminals and deliveries. */}}
      {{- $ready := "readyz?exclude=platforms" }}
      {{- range $probe, $how := dict "startup" (list $ready 2 60) "readiness" (list $ready 5 2) "liveness" (list "livez" 10 6) }}
      {{ $probe }}Probe:
        httpGet:
          path: /{{ index $how 0 }}
          port: metrics
        periodSeconds: {{ index $how 1 }}
        timeoutSeconds: 5
        failureThreshold: {{ index $how 2 }}
      {{- end }}
      {{- if $values.preStopSeconds }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ int $values.preStopSeconds }}
      {{- end }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      securityContext:
        {{- toYaml $values.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "hermes.mounts" . | nindent 8 }}
    {{- with $own.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "hermes.volumes" . | nindent 4 }}
  {{- with $own.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $values.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range $values.topologySpread.keys }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $values.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "hermes.selectorLabels" (dict "root" $.root "component" $.service) | nindent 10 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* The variables of a service. */}}
{{- define "hermes.env" -}}
{{- $values := .root.Values -}}
{{- $own := get $values .service -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: HERMES_HOME
  value: /var/lib/hermes
- name: HERMES_INSTANCE
  value: $(POD_NAME)
- name: HERMES_LISTEN
  value: {{ printf "%s:%s" (include "hermes.bracketed" (list . $values.listenHost)) (include "hermes.port" .service) | quote }}
- name: HERMES_METRICS_HOST
  value: {{ $values.listenHost | quote }}
- name: HERMES_METRICS_PORT
  value: {{ $values.metrics.port | quote }}
{{ include "hermes.tlsEnv" . }}
{{ include "hermes.addressEnv" .root }}
{{- if ne .service "executor" }}
{{ include "hermes.databaseEnv" .root }}
{{- end }}
{{- if and (eq .service "gateway") $values.gateway.http.enabled }}
- name: API_SERVER_HOST
  value: {{ $values.listenHost | quote }}
- name: API_SERVER_PORT
  value: {{ $values.gateway.http.port | quote }}
{{- end }}
{{- if eq .service "agent" }}
- name: HERMES_AGENT_ENDPOINT
  value: {{ printf "%s:%s#%s" (include "hermes.bracketed" (list . "$(POD_IP)")) (include "hermes.port" "agent") (include "hermes.host" .) | quote }}
- name: HERMES_PROFILES_STORE
  value: database
{{- end }}
{{- if eq .service "executor" }}
- name: HERMES_EXECUTOR_ENDPOINT
  value: $(POD_NAME).{{ include "hermes.host" . }}:{{ include "hermes.port" "executor" }}
{{- if eq $values.executor.backend "modal" }}
- name: MODAL_TOKEN_ID_FILE
  value: /run/secrets/hermes/modal/token-id
- name: MODAL_TOKEN_SECRET_FILE
  value: /run/secrets/hermes/modal/token-secret
{{- end }}
{{- end }}
{{- with $own.secret }}
{{- range .keys }}
- name: {{ . }}_FILE
  value: /run/secrets/hermes/keys/{{ . }}
{{- end }}
{{- end }}
{{- with $own.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hermes.tlsEnv" -}}
- name: HERMES_TLS_CA
  value: /etc/hermes/tls/ca.crt
- name: HERMES_TLS_CERTIFICATE
  value: /etc/hermes/tls/tls.crt
- name: HERMES_TLS_KEY
  value: /etc/hermes/tls/tls.key
{{- end -}}

{{- define "hermes.addressEnv" -}}
{{- range $index, $service := splitList " " (include "hermes.services" .) -}}
{{- if $index }}
{{ end -}}
- name: HERMES_{{ upper $service }}_ADDRESS
  value: {{ include "hermes.host" (dict "root" $ "service" $service) }}:{{ include "hermes.port" $service }}
{{- end -}}
{{- end -}}

{{- define "hermes.databaseEnv" -}}
- name: HERMES_DATABASE_URL_FILE
  value: /run/secrets/hermes/database/url
{{- end -}}

{{- define "hermes.mounts" -}}
{{- $values := .root.Values -}}
{{- $own := get $values .service -}}
- name: home
  mountPath: /var/lib/hermes
- name: config
  mountPath: /var/lib/hermes/config.yaml
  subPath: config.yaml
  readOnly: true
- name: tmp
  mountPath: /tmp
- name: tls
  mountPath: /etc/hermes/tls
  readOnly: true
{{- range include "hermes.secrets" . | fromYaml }}
- name: {{ .name }}
  mountPath: {{ .path }}
  readOnly: true
{{- end }}
{{- with $own.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hermes.volumes" -}}
{{- $values := .root.Values -}}
{{- $own := get $values .service -}}
{{- if or (ne .service "executor") (not $values.executor.persistence.enabled) }}
- name: home
  emptyDir: {}
{{- end }}
- name: config
  configMap:
    name: {{ include "hermes.fullname" .root }}-config
- name: tmp
  emptyDir: {}
- name: tls
  secret:
    secretName: {{ include "hermes.tlsSecret" (dict "root" .root "identity" .service) }}
    defaultMode: 0440
{{- range include "hermes.secrets" . | fromYaml }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    {{- with .items }}
    items:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- with $own.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The Secrets of a service beside its certificate, by their order: name, path, secret, items. */}}
{{- define "hermes.secrets" -}}
{{- $values := .root.Values -}}
{{- $own := get $values .service -}}
{{- $found := dict -}}
{{- if ne .service "executor" -}}
{{- $items := list (dict "key" ($values.postgresql.enabled | ternary "url" $values.database.key) "path" "url") -}}
{{- $_ := set $found "a" (dict "name" "database" "path" "/run/secrets/hermes/database" "secret" (include "hermes.databaseSecret" .root) "items" $items) -}}
{{- end -}}
{{- with $own.secret -}}
{{- if .keys -}}
{{- $items := list -}}
{{- range .keys }}{{- $items = append $items (dict "key" . "path" .) }}{{- end -}}
{{- $_ := set $found "b" (dict "name" "keys" "path" "/run/secrets/hermes/keys" "secret" .existingSecret "items" $items) -}}
{{- end -}}
{{- end -}}
{{- if eq .service "executor" -}}
{{- $executor := $values.executor -}}
{{- if eq $executor.backend "docker" -}}
{{- with $executor.docker.tlsSecret }}{{- $_ := set $found "c" (dict "name" "docker" "path" "/run/secrets/hermes/docker" "secret" .) }}{{- end -}}
{{- with $executor.docker.sshSecret }}{{- $_ := set $found "d" (dict "name" "docker-ssh" "path" "/home/hermes/.ssh" "secret" .) }}{{- end -}}
{{- else if eq $executor.backend "ssh" -}}
{{- $_ := set $found "c" (dict "name" "ssh" "path" "/run/secrets/hermes/ssh" "secret" $executor.ssh.existingSecret) -}}
{{- else if eq $executor.backend "modal" -}}
{{- $_ := set $found "c" (dict "name" "modal" "path" "/run/secrets/hermes/modal" "secret" $executor.modal.existingSecret) -}}
{{- end -}}
{{- if $values.sandbox.egress.secrets -}}
{{- $_ := set $found "e" (dict "name" "egress" "path" "/run/secrets/hermes/egress" "secret" $values.sandbox.egress.existingSecret) -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* An address as it stands before a port. */}}
{{- define "hermes.bracketed" -}}
{{- $isSix := contains ":" (index . 0).root.Values.listenHost -}}
{{- if $isSix }}[{{ end }}{{ index . 1 }}{{ if $isSix }}]{{ end -}}
{{- end -}}
