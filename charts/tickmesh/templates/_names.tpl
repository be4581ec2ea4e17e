{{/* Name of the cluster. */}}
{{- define "tickmesh.cluster" -}}
{{ .Values.cluster.name | default .Release.Name }}
{{- end -}}
