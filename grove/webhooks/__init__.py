"""The webhooks: how the API server asks the rules of grove/admission.

configurations   what the API server is told: the webhook configurations, as manifests
certificates     a certificate authority of our own and what it signs (X.509, pure)
provision        where the server's certificate comes from and who trusts it: Secret or files, caBundle
server           HTTPS: AdmissionReview in, AdmissionReview out
reviews          reading and answering an AdmissionReview (pure)
handlers         what each path answers
trials           which objects of a set are tried, and where their fields stand in it (pure)
dry_run          asks the API server whether they would be valid
"""
