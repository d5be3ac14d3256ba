"""A tour of the registry with the published Python SDK. Use: registry_tour.py HOST:PORT KEY_ID KEY"""

import asyncio
import json
import sys

from viam.app.viam_client import ViamClient
from viam.proto.app import ModuleFileInfo
from viam.rpc.dial import DialOptions


async def main(address, key_id, key):
    options = DialOptions.with_api_key(key, key_id)
    options.insecure = True
    client = await ViamClient.create_from_dial_options(options, app_url=address)
    app = client.app_client
    seen = {}
    [organization] = await app.list_organizations()
    module_id, _ = await app.create_module(org_id=organization.id, name="arms")
    await app.update_module(
        module_id=module_id,
        url="https://example.com",
        description="Arms",
        models=None,
        entrypoint="run.sh",
    )
    info = ModuleFileInfo(module_id=module_id, version="1.0.0", platform="linux/amd64")
    seen["uploaded"] = await app.upload_module_file(module_file_info=info, file=b"\x1f\x8b\x08\x00" + bytes(1000))
    module = await app.get_module(module_id=module_id)
    seen["versions"] = [[one.version, one.entrypoint, one.files[0].platform] for one in module.versions]
    seen["modules"] = [one.name for one in await app.list_modules(org_id=organization.id)]
    items = await app.list_registry_items(
        organization_id=organization.id, types=[], visibilities=[], platforms=["linux/any"], statuses=[]
    )
    seen["items"] = [one.name for one in items]
    client.close()
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
