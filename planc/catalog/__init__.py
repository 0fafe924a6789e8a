"""What planc knows of models and devices: facts as data, each with its source."""
