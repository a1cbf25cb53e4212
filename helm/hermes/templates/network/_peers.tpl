{{/* Pods of the release by their components: root, components. */}}
{{- define "hermes.peers" -}}
{{- range .components }}
- podSelector:
    matchLabels:
      {{- include "hermes.selectorLabels" (dict "root" $.root "component" .) | nindent 6 }}
{{- end }}
{{- end -}}

{{/* A rule to peers at ports; to every address where none are named: to, ports. */}}
{{- define "hermes.egressTo" -}}
- {{ with .to -}}
  to:
    {{- toYaml . | nindent 4 }}
  {{ end -}}
  ports:
    {{- range .ports }}
    - protocol: TCP
      port: {{ int . }}
    {{- end }}
{{- end -}}

{{/* A rule to the internet, without what is in networks of one's own: root, ports; all of them if none are named. */}}
{{- define "hermes.internet" -}}
{{- if and .root.Values.networkPolicy.internet.enabled (not .root.Values.networkPolicy.cilium.enabled) }}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          {{- toYaml .root.Values.networkPolicy.internet.except | nindent 10 }}
    - ipBlock:
        cidr: ::/0
        except: ["fc00::/7", "fe80::/10", "64:ff9b::/96"]
  {{- with .ports }}
  ports:
    {{- range . }}
    - protocol: TCP
      port: {{ int . }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "hermes.toDatabase" -}}
{{- if .Values.postgresql.enabled }}
- to:
    {{- include "hermes.peers" (dict "root" . "components" (list "postgresql")) | nindent 4 }}
  ports:
    - protocol: TCP
      port: 5432
{{- else }}
{{ include "hermes.egressTo" (dict "to" .Values.networkPolicy.database.to "ports" (list .Values.networkPolicy.database.port)) }}
{{- end }}
{{- end -}}

{{/* Rules from a service to others: root, services. */}}
{{- define "hermes.toServices" -}}
{{- range .services }}
- to:
    {{- include "hermes.peers" (dict "root" $.root "components" (list .)) | nindent 4 }}
  ports:
    - protocol: TCP
      port: {{ include "hermes.port" . }}
{{- end }}
{{- end -}}

{{/* Who may call a service, as its methods' policies have it. */}}
{{- define "hermes.callers" -}}
{{- get (dict "agent" "agent gateway scheduler" "executor" "agent" "gateway" "agent scheduler" "scheduler" "agent gateway") . -}}
{{- end -}}

{{/* Whom a service calls. */}}
{{- define "hermes.called" -}}
{{- get (dict "agent" "agent executor gateway scheduler" "executor" "" "gateway" "agent scheduler" "scheduler" "agent gateway") . -}}
{{- end -}}

{{/* What an executor needs beside calls: its backend, and what sandboxes reach through it. */}}
{{- define "hermes.executorEgress" -}}
{{- $executor := .Values.executor -}}
{{- $policy := .Values.networkPolicy -}}
{{- if eq $executor.backend "kubernetes" }}
{{ include "hermes.egressTo" (dict "to" $policy.apiServer.to "ports" $policy.apiServer.ports) }}
{{- else if eq $executor.backend "ssh" }}
{{ include "hermes.egressTo" (dict "to" $policy.backend.to "ports" (list $executor.ssh.port)) }}
{{- else if and (eq $executor.backend "docker") (not (hasPrefix "unix://" $executor.docker.host)) }}
{{- $port := regexFind "[0-9]+$" $executor.docker.host | default (hasPrefix "ssh://" $executor.docker.host | ternary "22" "2376") }}
{{ include "hermes.egressTo" (dict "to" $policy.backend.to "ports" (list $port)) }}
{{- else if eq $executor.backend "modal" }}
{{ include "hermes.internet" (dict "root" . "ports" (list 443)) }}
{{- end }}
{{- if eq .Values.sandbox.egress.mode "open" }}
{{ include "hermes.internet" (dict "root" . "ports" list) }}
{{- else if eq .Values.sandbox.egress.mode "allow_list" }}
{{- $ports := list 80 443 }}
{{- range .Values.sandbox.egress.hosts }}
{{- with regexFind ":[0-9,]+$" . }}
{{- range trimPrefix ":" . | splitList "," }}{{ $ports = append $ports (int .) }}{{ end }}
{{- end }}
{{- end }}
{{ include "hermes.internet" (dict "root" . "ports" (uniq $ports)) }}
{{- end }}
{{- end -}}
