{{/* The configuration file, as the operator reads it. */}}
{{- define "grove.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.leaderElection.resourceNamespace -}}
{{- $_ := set $config.leaderElection "resourceNamespace" .Release.Namespace -}}
{{- end -}}
{{- if not $config.server.healthProbes.enable -}}
{{- $_ := set $config.server.healthProbes "port" 0 -}}
{{- end -}}
{{- $_ := unset $config.server.healthProbes "enable" -}}
{{- $file := merge (dict "apiVersion" "operator.config.grove.io/v1alpha1" "kind" "OperatorConfiguration") $config -}}
{{- toYaml $file -}}
{{- end -}}

{{- define "grove.configMapName" -}}
grove-operator-cm-{{ include "grove.config" . | sha256sum | trunc 8 }}
{{- end -}}

{{/* Labels of every object: those given, as a dict under "labels", and the release's. */}}
{{- define "grove.labels" -}}
{{- $release := dict "chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_")) "release" .root.Release.Name "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- merge (deepCopy (.labels | default dict)) (deepCopy .root.Values.commonLabels) $release | toYaml -}}
{{- end -}}

{{/* The annotations block of an object, absent when there are none. */}}
{{- define "grove.annotations" -}}
{{- with merge (deepCopy (.annotations | default dict)) (deepCopy .root.Values.commonAnnotations) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* By these the Deployment, the Service and the budget find the pods; they never change. */}}
{{- define "grove.selector" -}}
app.kubernetes.io/component: operator
app.kubernetes.io/name: grove-operator
release: {{ .Release.Name }}
{{- end -}}

{{- define "grove.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- .Values.image.repository }}{{ if hasPrefix "sha256:" $tag }}@{{ else }}:{{ end }}{{ $tag }}
{{- end -}}

{{/* A webhook configuration of files/webhooks.yaml, by its name, made to fit this release. */}}
{{- define "grove.webhook" -}}
{{- $root := .root -}}
{{- range $text := regexSplit "(?m)^---$" ($root.Files.Get "files/webhooks.yaml") -1 -}}
{{- $obj := fromYaml $text -}}
{{- if eq $obj.metadata.name $.name -}}
{{- $_ := set $obj.metadata "labels" (include "grove.labels" (dict "root" $root "labels" (merge (deepCopy $.values.labels) $obj.metadata.labels)) | fromYaml) -}}
{{- with merge (deepCopy $.values.annotations) (deepCopy $root.Values.commonAnnotations) -}}
{{- $_ := set $obj.metadata "annotations" . -}}
{{- end -}}
{{- range $webhook := $obj.webhooks -}}
{{- $client := $webhook.clientConfig -}}
{{- if $root.Values.webhooks.url -}}
{{- $_ := set $client "url" (printf "%s%s" (trimSuffix "/" $root.Values.webhooks.url) $client.service.path) -}}
{{- $_ := unset $client "service" -}}
{{- else -}}
{{- $_ := set $client "service" (merge (dict "name" $root.Values.service.name "namespace" $root.Release.Namespace "port" 443) $client.service) -}}
{{- end -}}
{{- with $root.Values.webhooks.caBundle -}}
{{- $_ := set $client "caBundle" . -}}
{{- end -}}
{{- if eq $.name "authorizer-webhook" -}}
{{- range $condition := $webhook.matchConditions -}}
{{- $always := regexFind "\\[.*\\]" $condition.expression | fromJsonArray -}}
{{- $own := printf "system:serviceaccount:%s:%s" $root.Release.Namespace $root.Values.serviceAccount.name -}}
{{- $users := concat $always $root.Values.config.authorizer.exemptServiceAccountUserNames (list $own) | uniq | sortAlpha -}}
{{- $_ := set $condition "expression" (printf "!(request.userInfo.username in %s)" (toJson $users)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $obj -}}
{{- end -}}
{{- end -}}
{{- end -}}
