{{/* Name of the operator's objects. */}}
{{- define "tickmesh.operator" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}-operator
{{- end -}}

{{/* Name of the operator's objects that have no namespace. */}}
{{- define "tickmesh.operatorClusterWide" -}}
{{ .Release.Namespace }}-{{ include "tickmesh.operator" . }}
{{- end -}}

{{/* Name of the cluster. */}}
{{- define "tickmesh.cluster" -}}
{{ .Values.cluster.name | default .Release.Name }}
{{- end -}}

{{/* Labels that select the operator's pods. Network policies of clusters know the first. */}}
{{- define "tickmesh.operatorSelector" -}}
app.kubernetes.io/name: tickmesh-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of everything that belongs to the operator. */}}
{{- define "tickmesh.operatorLabels" -}}
{{ include "tickmesh.operatorSelector" . }}
{{ include "tickmesh.commonLabels" . }}
{{- end -}}

{{- define "tickmesh.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Images. */}}
{{- define "tickmesh.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "tickmesh.operatorImage" -}}
{{ .Values.operator.image.repository }}:{{ .Values.operator.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "tickmesh.envoyImage" -}}
{{ .Values.envoyImage.repository }}:{{ .Values.envoyImage.tag }}
{{- end -}}

{{/* Security of pods and containers: as that of the operator's own pods. */}}
{{- define "tickmesh.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "tickmesh.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
