"""Runs a kernel on a NeuronCore with the AWS Neuron SDK, beside the interpreter and the model."""
