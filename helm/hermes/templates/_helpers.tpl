{{/* Names and labels. */}}
{{- define "hermes.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 39 characters: the name of a CronJob, which is the longest, has at most 52. */}}
{{- define "hermes.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 39 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 39 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 39 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hermes.services" -}}agent executor gateway scheduler{{- end -}}

{{/* The port at which a service answers calls. */}}
{{- define "hermes.port" -}}
{{- get (dict "agent" "7401" "executor" "7402" "gateway" "7403" "scheduler" "7404") . -}}
{{- end -}}

{{- define "hermes.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hermes.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "hermes.labels" -}}
{{ include "hermes.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hermes
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object: root, component, name, and where it is not the release's, namespace. */}}
{{- define "hermes.metadata" -}}
name: {{ .name }}
namespace: {{ .namespace | default .root.Release.Namespace }}
labels:
  {{- include "hermes.labels" . | nindent 2 }}
{{- end -}}

{{/* The name that all pods of a service share, and in a certificate. */}}
{{- define "hermes.host" -}}
{{ include "hermes.fullname" .root }}-{{ .service }}.{{ .root.Release.Namespace }}.svc
{{- end -}}

{{/* registry, repository, tag and digest, the digest before the tag, the global registry first. */}}
{{- define "hermes.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .registry -}}
{{- with $registry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{ .image.repository }}
{{- if .image.digest -}}
@{{ .image.digest }}
{{- else -}}
:{{ .image.tag | default .tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The image of a service. */}}
{{- define "hermes.serviceImage" -}}
{{- $image := .root.Values.image -}}
{{ include "hermes.image" (dict "root" .root "registry" $image.registry "tag" $image.tag "image" (get .root.Values .service).image) }}
{{- end -}}

{{- define "hermes.sandboxImage" -}}
{{ include "hermes.image" (dict "root" . "registry" .Values.sandbox.image.registry "tag" .Values.image.tag "image" .Values.sandbox.image) }}
{{- end -}}

{{- define "hermes.sandboxNamespace" -}}
{{ .Values.sandbox.namespace.name | default (printf "%s-sandboxes" .Release.Namespace) }}
{{- end -}}

{{/* The ConfigMap that owns all sandboxes: when the release goes, they go. */}}
{{- define "hermes.sandboxOwner" -}}
{{ include "hermes.fullname" . }}-sandboxes
{{- end -}}

{{/* The PriorityClass of sandboxes, which is the whole cluster's. */}}
{{- define "hermes.sandboxPriorityClass" -}}
{{- with .Values.sandbox.priorityClass -}}
{{- .name | default (.create | ternary (printf "%s-%s" $.Release.Namespace (include "hermes.sandboxOwner" $)) "") -}}
{{- end -}}
{{- end -}}

{{/* The priority of pods beside the four services. */}}
{{- define "hermes.priority" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "hermes.workspaceClaim" -}}
{{- with .Values.sandbox.workspaces -}}
{{- if .enabled -}}
{{ .existingClaim | default (printf "%s-workspaces" (include "hermes.fullname" $)) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hermes.databaseSecret" -}}
{{- if .Values.postgresql.enabled -}}
{{ include "hermes.fullname" . }}-postgresql
{{- else -}}
{{ .Values.database.existingSecret }}
{{- end -}}
{{- end -}}

{{- define "hermes.tlsSecret" -}}
{{- if eq .root.Values.tls.mode "existingSecret" -}}
{{ get .root.Values.tls.existingSecrets .identity }}
{{- else -}}
{{ include "hermes.fullname" .root }}-{{ .identity }}-tls
{{- end -}}
{{- end -}}

{{/* Whether a service has, or may come to have, more than one pod. */}}
{{- define "hermes.isSeveral" -}}
{{- if .autoscaling.enabled -}}
{{- if gt (int .autoscaling.minReplicas) 1 -}}true{{- end -}}
{{- else if gt (int .replicas) 1 -}}true{{- end -}}
{{- end -}}

{{/* Jobs run before the rest where what they need is there before it. */}}
{{- define "hermes.hook" -}}
{{- if or .Values.postgresql.enabled .Values.externalSecrets.enabled -}}
post-install,pre-upgrade
{{- else -}}
pre-install,pre-upgrade
{{- end -}}
{{- end -}}

{{- define "hermes.pullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The names that a service's certificate is for, as a list; an executor's pods have names of their own. */}}
{{- define "hermes.dnsNames" -}}
{{- $host := include "hermes.host" . -}}
- {{ $host }}
{{- if eq .service "executor" }}
- "*.{{ $host }}"
{{- end }}
{{- end -}}

{{/* Selects the pods, or Services, of all four services. */}}
{{- define "hermes.allServices" -}}
matchLabels:
  app.kubernetes.io/name: {{ include "hermes.name" . }}
  app.kubernetes.io/instance: {{ .Release.Name }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: [{{ include "hermes.services" . | splitList " " | join ", " }}]
{{- end -}}
