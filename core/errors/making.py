"""Getting and making: network and integrity, toolchains, builds, model files."""

from __future__ import annotations

from core.errors.base import Category, Failure
from core.errors.general import UsageError


class NothingToBuild(UsageError):
    """The folder that `ohforge build --source` was given has no project that ohforge can build."""

    code = "OHF6404"
    default_remedy = "Name the folder that has CMakeLists.txt, meson.build, configure or a Makefile in it."


class NotASourceTree(UsageError):
    """A folder was named as an OpenHarmony source tree that is none, or one that was not synced whole."""

    code = "OHF6405"
    default_remedy = (
        "Name the folder that has build.sh and .gn with --tree; `repo sync -c` makes links that are missing."
    )


class NetworkError(Failure):
    """A download failed for a reason that may pass: no route, time-out, server fault."""

    code = "OHF6601"
    category = Category.NETWORK
    default_remedy = "Check the network and the proxy settings, then run the command again: it resumes."


class NotFoundOnServer(NetworkError):
    """The server answered that the file does not exist or may not be had (HTTP 4xx)."""

    code = "OHF6602"
    default_remedy = "Check the name; `ohforge sdk.fetch` takes another source with --mirror."


class NotTheFile(NetworkError):
    """The server sent something other than the file, such as an HTML login page."""

    code = "OHF6603"
    default_remedy = "A proxy or a login page stands between; open the address in a browser to see it."


class Offline(NetworkError):
    """Something would have to be downloaded, but the setting ohforge.offline (or --offline) forbids it."""

    code = "OHF6604"
    default_remedy = "Run once with a network, without ohforge.offline; `ohforge sdk.fetch` takes a file that is here with --archive."


class NoSourceLeft(NetworkError):
    """Every configured source was tried and none could give the file."""

    code = "OHF6605"


class ServerUnreached(NetworkError):
    """No connection to the server came about: its name is not known, or nobody answers there."""

    code = "OHF6606"
    default_remedy = (
        "Check the network; behind a proxy, set HTTPS_PROXY. `ohforge sdk.fetch` also takes --archive for a file that was "
        "fetched elsewhere, and --mirror for a server that you can reach."
    )


class IntegrityError(Failure):
    """A file is not what it should be: its hash or size differs from the pinned one."""

    code = "OHF6701"
    category = Category.INTEGRITY
    default_remedy = (
        "The file was set aside and not used. Run again to fetch it anew; if it differs again, the source has changed."
    )


class HostileArchive(IntegrityError):
    """An archive holds entries that would escape its folder or are not plain files."""

    code = "OHF6702"
    default_remedy = "Do not use this archive; get it from another source."


class DamagedArchive(IntegrityError):
    """An archive ends early or cannot be read."""

    code = "OHF6703"
    default_remedy = "Remove the file and fetch it again."


class RecordChanged(IntegrityError):
    """A record is not as it was when the work ended: files of it were changed, removed or added since."""

    code = "OHF6704"
    default_remedy = "Do not rely on its numbers; measure again, or restore the folder from a copy."


class ToolchainError(Failure):
    """No usable compiler, or an SDK that is incomplete."""

    code = "OHF6801"
    category = Category.TOOLCHAIN
    default_remedy = "Run `ohforge doctor` to see what is missing."


class SdkNotFound(ToolchainError):
    """No ohos-sdk is where it was looked for."""

    code = "OHF6802"
    default_remedy = "Install one with `ohforge sdk.fetch`, name one with --sdk PATH, or use --toolchain zig."


class SdkIncomplete(ToolchainError):
    """A folder looks like an ohos-sdk but lacks files that every release has."""

    code = "OHF6803"
    default_remedy = (
        "Install the SDK again with `ohforge sdk.fetch`; unpacking with a tool that drops links causes this."
    )


class TuningNotForArch(ToolchainError):
    """A CPU tuning was asked for that does not exist for the arch."""

    code = "OHF6804"
    default_remedy = "Choose a tuning that the message lists, or leave --cpu away."


class SdkNotForHost(ToolchainError):
    """No ohos-sdk is published that runs on this kind of machine."""

    code = "OHF6805"
    default_remedy = "Use --toolchain zig, which compiles for the board on this machine too, or another machine."


class BuildError(Failure):
    """Configuring or compiling a program failed; the log is kept."""

    code = "OHF6901"
    category = Category.BUILD
    default_remedy = "Read the log that is named; the first error in it is the cause."


class SourceError(BuildError):
    """A source tree lacks files that the recipe needs."""

    code = "OHF6902"
    default_remedy = "Use the pinned version of the recipe, or correct the recipe's list of required files."


class ProductMissing(BuildError):
    """The build ended well but did not leave a product that the recipe names."""

    code = "OHF6903"
    default_remedy = "Correct the product's path in the recipe; the message lists what was built."


class UnfitProduct(BuildError):
    """The build left a file for another arch, or one that mixes float ABIs."""

    code = "OHF6904"
    default_remedy = "Look in the build log for flags that change the target; the toolchain file must set it alone."


class DamagedProgram(BuildError):
    """A program file is cut short or damaged."""

    code = "OHF6905"
    default_remedy = "Build or copy the file again."


class SourceBuildFailed(BuildError):
    """build.sh of an OpenHarmony source tree failed; the message says why when the failure is a known one."""

    code = "OHF6906"
    default_remedy = "Read the log that is named; `ohforge source.explain LOG` says what is known of another log."


class ModelError(Failure):
    """A model file is missing, empty, cut short or of a kind that is not known."""

    code = "OHF7601"
    category = Category.MODEL
    default_remedy = "Fetch the model again; `ohforge model.list` shows those that can be had by name."


class TreeNotReady(Failure):
    """This machine or the OpenHarmony source tree lacks something without which a build can only fail."""

    code = "OHF7704"
    category = Category.HOST
    default_remedy = "Run `ohforge source.check` to see all that was looked at."
