"""The unmodified files of a release load without its engine, each release in its own process."""

import subprocess
import sys
import textwrap

import pytest


def in_a_process(code):
    """Run code in a process of its own: whatever it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_release_loads_without_torch_and_its_manager_keeps_a_block(release):
    out = in_a_process(f"""
        import sys
        from tierproof.properties.vllm_loader import load
        release = load({release!r})
        stock = release.build(slots=2, block_bytes=64)
        assert "torch" not in sys.modules
        base, manager = release.base, stock.manager
        key, context = base.make_offload_key(b"k0", 0), base.ReqContext(req_id="r0")
        if hasattr(manager, "on_new_request"):
            manager.on_new_request(context)
        stored = manager.prepare_store([key], context)
        print(len(stored.keys_to_store), stored.store_spec.block_ids.tolist())
        manager.complete_store([key], context)
        answer = manager.lookup(key, context)
        print(getattr(answer, "name", answer))
    """)
    assert out.splitlines() == ["1 [0]", out.splitlines()[-1]]
    assert out.splitlines()[-1] in ("HIT", "True")


def test_the_files_that_run_are_the_cached_ones(release):
    out = in_a_process(f"""
        from tierproof.properties.vllm_cache import folder_of
        from tierproof.properties.vllm_loader import load
        from tierproof.properties.vllm_cache import MANAGER
        print(load({release!r}).tiering.__file__ == str(folder_of({release!r}) / MANAGER))
    """)
    assert out == "True"


def test_what_needs_the_engine_says_so_when_it_is_used(release):
    out = in_a_process(f"""
        from tierproof.properties.vllm_loader import load
        try:
            load({release!r}).module("vllm.config").VllmConfig()
        except RuntimeError as error:
            print(error)
    """)
    assert "vllm.config.VllmConfig is only a stand-in" in out


def test_torch_is_the_real_one_again_after_loading(release):
    out = in_a_process(f"""
        import sys
        from tierproof.properties.vllm_loader import load
        load({release!r})
        print([n for n in sys.modules if n.startswith("torch")])
    """)
    assert out == "[]"


def test_a_second_vllm_in_one_process_is_refused(tmp_path):
    (tmp_path / "vllm/1.2.3/vllm/v1/kv_offload/tiering").mkdir(parents=True)
    (tmp_path / "vllm/1.2.3/vllm/v1/kv_offload/tiering/manager.py").write_text("")
    out = in_a_process(f"""
        import os, sys, types
        os.environ["TIERPROOF_CACHE"] = {str(tmp_path)!r}
        sys.modules["vllm"] = types.ModuleType("vllm")
        from tierproof.properties.managers import UsageError
        from tierproof.properties.vllm_loader import load
        try:
            load("1.2.3")
        except UsageError as error:
            print(error)
    """)
    assert "load it in a process of its own" in out


def test_files_that_cannot_be_loaded_leave_nothing_behind(tmp_path):
    (tmp_path / "vllm/1.2.3/vllm/v1/kv_offload/tiering").mkdir(parents=True)
    for name in ("__init__", "base", "tiering/__init__", "tiering/base", "tiering/manager"):
        text = "import nothing_of_this_name" if name == "tiering/manager" else ""
        (tmp_path / f"vllm/1.2.3/vllm/v1/kv_offload/{name}.py").write_text(text)
    for folder in ("vllm", "vllm/v1"):
        (tmp_path / f"vllm/1.2.3/{folder}/__init__.py").write_text("raise AssertionError('ran')")
    out = in_a_process(f"""
        import os, sys
        os.environ["TIERPROOF_CACHE"] = {str(tmp_path)!r}
        from tierproof.properties.managers import UsageError
        from tierproof.properties.vllm_loader import load
        try:
            load("1.2.3")
        except UsageError as error:
            print(error)
        print([n for n in sys.modules if n.partition(".")[0] in ("vllm", "torch")])
    """)
    assert "nothing_of_this_name" in out
    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["is_cpu", "is_cuda_alike"])
def test_the_platform_of_a_stand_in_has_no_accelerator(name):
    from tierproof.properties.vllm_stand_ins import Platform

    assert getattr(Platform(), name)() is (name == "is_cpu")
