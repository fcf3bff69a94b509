"""The vocabulary of the script beside it."""


def encode(word):
    return [(ord(letter) - 96) / 26 for letter in word]
