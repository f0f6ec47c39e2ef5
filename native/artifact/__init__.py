"""What a build left: manifest, ELF files, and the libraries that a program needs."""
