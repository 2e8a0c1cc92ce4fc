"""What tests of the command line share."""


def assert_told(done, *words):
    assert done.code == 2, done.out + done.err
    assert "Traceback" not in done.err
    assert done.err.startswith("tierproof: ")
    assert done.err.count("\n") == 1, f"not one sentence: {done.err}"
    for word in words:
        assert word in done.err, f"{word!r} is not in: {done.err}"
