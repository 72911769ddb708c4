"""What users write and read: the five kinds, their names, labels and CustomResourceDefinitions."""
