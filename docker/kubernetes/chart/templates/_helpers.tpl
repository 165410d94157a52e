{{/* Name of the release's objects. */}}
{{- define "gpuwhisk.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* Labels that choose the pods. */}}
{{- define "gpuwhisk.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpuwhisk.labels" -}}
{{ include "gpuwhisk.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* Paths of containerd on the node, as YAML. */}}
{{- define "gpuwhisk.containerd" -}}
{{- $k3s := eq .Values.distribution "k3s" -}}
{{- $given := .Values.containerd -}}
socket: {{ $given.socket | default (ternary "/run/k3s/containerd/containerd.sock" "/run/containerd/containerd.sock" $k3s) }}
root: {{ $given.root | default (ternary "/var/lib/rancher/k3s/agent/containerd" "/var/lib/containerd" $k3s) }}
certs: {{ $given.certs | default (ternary "/var/lib/rancher/k3s/agent/etc/containerd/certs.d" "/etc/containerd/certs.d" $k3s) }}
config: {{ $given.config | default (ternary "/var/lib/rancher/k3s/agent/etc/containerd/config.toml" "/etc/containerd/config.toml" $k3s) }}
{{- end -}}
