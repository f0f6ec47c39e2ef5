"""All tasks with their default settings, for ``ohforge`` and for ``invoke`` in the clone."""

from invoke.collection import Collection

from commands import bench, board, build, data, evaluate, host, model, report, restart, sdk, source, study, toolchain
from core.settings import defaults

ns = Collection()
for module in (sdk, toolchain, build, model, board, bench, data, source, study):
    ns.add_collection(Collection.from_module(module))
ns.add_collection(Collection.from_module(evaluate, name="eval"))
for task in (restart.reboot, restart.wait_):
    ns.collections["board"].add_task(task)
ns.add_task(host.doctor)
ns.add_task(host.demo)
ns.add_task(report.report)
ns.collections["bench"].add_task(report.export)
ns.configure({"ohforge": defaults()})
