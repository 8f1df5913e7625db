//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO: the commands that control client-side caching.

use sleeve_wire::number;

use crate::context::Cx;
use crate::context::session_state::Track;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// CLIENT TRACKING ON | OFF \[REDIRECT client-id\] \[PREFIX prefix ...\] \[BCAST\] \[OPTIN\] \[OPTOUT\] \[NOLOOP\]
pub fn tracking(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let wanted = options(cx, request)?;
    if request.arg(2).eq_ignore_ascii_case(b"on") {
        begin(cx, wanted)?;
    } else if request.arg(2).eq_ignore_ascii_case(b"off") {
        cx.state.stop_tracking(cx.engine);
    } else {
        return Err(Error::SYNTAX);
    }
    cx.reply().ok();
    Ok(())
}

fn options(cx: &Cx<'_>, request: Request<'_>) -> Result<Track, Error> {
    let mut wanted = Track::default();
    let mut options = request.args.from(3).iter().peekable();
    while let Some(option) = options.next() {
        let has_more = options.peek().is_some();
        match option.to_ascii_lowercase().as_slice() {
            b"redirect" if has_more => {
                if wanted.redirect != 0 {
                    return Err(Error::fixed("ERR A client can only redirect to a single other client"));
                }
                let id = number::parse_i64(options.next().unwrap_or_default()).ok_or(Error::NOT_INTEGER)?;
                let client = u64::try_from(id).ok().and_then(|id| cx.engine.clients.list.find(id));
                let client = client.ok_or(Error::fixed("ERR The client ID you want redirect to does not exist"))?;
                wanted.redirect = client.id;
            }
            b"prefix" if has_more => wanted.prefixes.push(options.next().unwrap_or_default().into()),
            b"bcast" => wanted.broadcast = true,
            b"optin" => wanted.opt_in = true,
            b"optout" => wanted.opt_out = true,
            b"noloop" => wanted.no_loop = true,
            _ => return Err(Error::SYNTAX),
        }
    }
    Ok(wanted)
}

/// Begins tracking, or changes its options while it is on, if the old and the new options are compatible.
fn begin(cx: &mut Cx<'_>, mut wanted: Track) -> Outcome {
    let old = cx.state.tracking.as_deref();
    if !wanted.broadcast && !wanted.prefixes.is_empty() {
        return Err(Error::fixed("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if old.is_some_and(|old| old.broadcast != wanted.broadcast) {
        return Err(Error::fixed(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        ));
    }
    if wanted.broadcast && (wanted.opt_in || wanted.opt_out) {
        return Err(Error::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if wanted.opt_in && wanted.opt_out {
        return Err(Error::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    if old.is_some_and(|old| wanted.opt_in && old.opt_out || wanted.opt_out && old.opt_in) {
        return Err(Error::fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        ));
    }
    let followed = old.map(|old| old.prefixes.clone()).unwrap_or_default();
    check_overlaps(&followed, &wanted.prefixes)?;
    if wanted.broadcast && wanted.prefixes.is_empty() {
        wanted.prefixes.push(Box::default());
    }
    cx.engine.clients.tracking.enter(&cx.state.client, &wanted.prefixes, wanted.no_loop);
    let more = followed.into_iter().filter(|prefix| !wanted.prefixes.contains(prefix)).collect::<Vec<_>>();
    wanted.prefixes.extend(more);
    wanted.weigh();
    cx.state.tracking = Some(Box::new(wanted));
    Ok(())
}

/// Checks that the prefixes of one client do not cover each other: it would be notified of some keys twice.
fn check_overlaps(followed: &[Box<[u8]>], wanted: &[Box<[u8]>]) -> Outcome {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refusal = |one: &[u8], kind: &str, other: &[u8]| {
        let pattern = "ERR Prefix '{}' overlaps with {} prefix '{}'. Prefixes for a single client must not overlap.";
        Err(Error::naming(pattern, &[one, kind.as_bytes(), other]))
    };
    for (index, prefix) in wanted.iter().enumerate() {
        if let Some(other) = followed.iter().find(|other| overlap(prefix, other)) {
            return refusal(prefix, "an existing", other);
        }
        if let Some(other) = wanted.iter().skip(index + 1).find(|other| overlap(prefix, other)) {
            return refusal(prefix, "another provided", other);
        }
    }
    Ok(())
}

/// CLIENT CACHING YES | NO
pub fn caching(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let Some(tracking) = &mut cx.state.tracking else {
        return Err(Error::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    let (is_valid, refusal) = match request.arg(2) {
        word if word.eq_ignore_ascii_case(b"yes") => {
            (tracking.opt_in, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
        }
        word if word.eq_ignore_ascii_case(b"no") => {
            (tracking.opt_out, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
        }
        _ => return Err(Error::SYNTAX),
    };
    if !is_valid {
        return Err(Error::fixed(refusal));
    }
    tracking.caching = true;
    cx.reply().ok();
    Ok(())
}

/// CLIENT GETREDIR
pub fn get_redir(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let redirect = cx.state.tracking.as_ref().map_or(-1, |tracking| tracking.redirect as i64);
    cx.reply().integer(redirect);
    Ok(())
}

/// CLIENT TRACKINGINFO
pub fn tracking_info(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let tracking = cx.state.tracking.as_deref().cloned();
    let redirect = tracking.as_ref().map_or(-1, |tracking| tracking.redirect as i64);
    let state = if tracking.is_some() { "on" } else { "off" };
    let Track { broadcast, opt_in, opt_out, no_loop, caching, broken, prefixes, .. } = tracking.unwrap_or_default();
    let flags = [
        (state, true),
        ("bcast", broadcast),
        ("optin", opt_in),
        ("caching-yes", opt_in && caching),
        ("optout", opt_out),
        ("caching-no", opt_out && caching),
        ("noloop", no_loop),
        ("broken_redirect", broken),
    ];
    let mut reply = cx.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.iter().filter(|(_, is_set)| *is_set).count());
    flags.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
