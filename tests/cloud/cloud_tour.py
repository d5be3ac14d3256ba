"""A tour of a control plane with the published Python SDK; prints one JSON object of what it saw.

Use: cloud_tour.py HOST:PORT KEY_ID KEY
"""

import asyncio
import json
import sys

from viam.app.viam_client import ViamClient
from viam.rpc.dial import DialOptions


async def main(address, key_id, key):
    options = DialOptions.with_api_key(key, key_id)
    options.insecure = True
    client = await ViamClient.create_from_dial_options(options, app_url=address)
    app = client.app_client
    seen = {}
    [organization] = await app.list_organizations()
    seen["organization"] = organization.name
    location = await app.create_location(org_id=organization.id, name="hall python")
    machine_id = await app.new_robot(name="rover", location_id=location.id)
    [part] = await app.get_robot_parts(machine_id)
    for max_rpm in (10, 20):
        config = {
            "components": [
                {"name": "m", "api": "rdk:component:motor", "model": "fake", "attributes": {"max_rpm": max_rpm}}
            ]
        }
        await app.update_robot_part(part.id, "renamed", config)
    changed = await app.get_robot_part(part.id)
    seen["changed"] = {
        "name": changed.name,
        "maxRpm": changed.robot_config["components"][0]["attributes"]["max_rpm"],
    }
    seen["history"] = len(await app.get_robot_part_history(part.id))
    seen["logs"] = len(await app.get_robot_part_logs(part.id))
    await app.delete_robot(machine_id)
    seen["robotsLeft"] = len(await app.list_robots(location.id))
    client.close()
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
