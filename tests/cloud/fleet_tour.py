"""A tour of calls about the whole fleet with the published Python SDK: metadata, secrets, shared locations, lists.

Use: fleet_tour.py HOST:PORT KEY_ID KEY. The key owns two organizations, `example` and `guest`.
"""

import asyncio
import json
import sys

from grpclib import GRPCError
from viam.app.viam_client import ViamClient
from viam.rpc.dial import DialOptions


async def code_of(call):
    try:
        await call
        return "done"
    except GRPCError as error:
        return error.status.name


async def main(address, key_id, key):
    options = DialOptions.with_api_key(key, key_id)
    options.insecure = True
    client = await ViamClient.create_from_dial_options(options, app_url=address)
    app = client.app_client
    seen = {}
    organizations = {one.name: one for one in await app.list_organizations()}
    example, guest = organizations["example"], organizations["guest"]
    location = await app.create_location(org_id=example.id, name="yard python")
    machine = await app.new_robot(name="barrow", location_id=location.id)
    [part] = await app.get_robot_parts(machine)

    notes = {"shelf": 7, "keys": ["a", "b"]}
    await app.update_organization_metadata(example.id, notes)
    await app.update_location_metadata(location.id, notes)
    await app.update_robot_metadata(machine, notes)
    await app.update_robot_part_metadata(part.id, notes)
    read = [
        await app.get_organization_metadata(example.id),
        await app.get_location_metadata(location.id),
        await app.get_robot_metadata(machine),
        await app.get_robot_part_metadata(part.id),
    ]
    seen["metadata"] = [one == notes for one in read]

    made = await app.create_location_secret(location.id)
    known = await app.location_auth(location.id)
    seen["locationSecret"] = [len(made.secrets), made.secrets[0].secret != "", known.secrets[0].secret]
    await app.delete_location_secret(made.secrets[0].id, location.id)
    seen["locationSecretsLeft"] = len((await app.location_auth(location.id)).secrets)
    with_secret = await app.create_robot_part_secret(part.id)
    seen["partSecret"] = [len(with_secret.secrets), with_secret.secret == with_secret.secrets[0].secret]
    await app.delete_robot_part_secret(part.id, with_secret.secrets[0].id)
    seen["partSecretsLeft"] = len((await app.get_robot_part(part.id)).secrets)

    await app.share_location(guest.id, location.id)
    seen["access"] = sorted(one.name for one in await app.get_organizations_with_access_to_location(location.id))
    seen["guests"] = [one.name for one in await app.list_locations(guest.id)]
    await app.unshare_location(guest.id, location.id)
    seen["guestsLeft"] = len(await app.list_locations(guest.id))

    seen["listed"] = [one.name for one in await app.list_robots_for_locations([location.id])]
    fragment = await app.create_fragment(example.id, "shared python", {"network": {"bind_address": "localhost:1"}})
    await app.update_fragment(fragment.id, "renamed python", {"network": {"bind_address": "localhost:2"}})
    history = await app.get_fragment_history(fragment.id)
    seen["history"] = [[one.old.name, one.edited_by.value == key_id] for one in history]
    first = await app.get_fragment(fragment.id, "1")
    seen["version"] = first.name

    seen["free"] = await app.get_organization_namespace_availability("orchard")
    ann = "ann@example.com"
    await app.create_organization_invite(example.id, ann, send_email_invite=False)
    await app.resend_organization_invite(example.id, ann)
    members, invites = await app.list_organization_members(example.id)
    seen["invited"] = [len(members)] + [
        [one.email] + [role.authorization_id for role in one.authorizations] for one in invites
    ]
    await app.delete_organization_invite(example.id, ann)
    seen["invitedLeft"] = len((await app.list_organization_members(example.id))[1])
    seen["nobody"] = [
        await code_of(app.get_user_id_by_email("nobody@example.com")),
        await code_of(app.delete_organization_member(example.id, "nobody")),
        len(await app.list_organizations_by_user("nobody")),
    ]
    seen["unserved"] = await code_of(app.get_rover_rental_robots(example.id))
    await app.delete_robot(machine)
    await app.delete_location(location.id)
    client.close()
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
