"""Runs a kernel on a NeuronCore with the AWS Neuron SDK, in addition to the interpreter and the
model."""
