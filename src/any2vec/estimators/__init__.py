"""Models as transformers and classifiers of scikit-learn, which is imported with these modules."""
