//! The token that the command runs with: the caller's own, with less in it. No privilege and no account is needed for that.
//!
//! Of the three designs that are in use elsewhere (a restricted token of the same user; an account of its own, which needs an
//! administrator once; an AppContainer, which cannot reach a gate on the host's loopback without an administrator) this is the
//! one that every user can have at once. What it takes away:
//!
//! - **Privileges**: all but the right to pass through folders, without which no path can be opened. They are deleted, not
//!   disabled: a disabled one can be enabled again.
//! - **The powers of administrators**: their groups are there to deny only.
//! - **Writing**, for [`TokenKind::NoWrites`], twice. With restricting SIDs a write must also be allowed to one of them: an
//!   identifier that is new for each sandbox, the logon session (its window station and console) or everyone (the null
//!   device). At low integrity nothing can be written that is not labelled so, which closes the folders that everyone can
//!   write. The private folder for temporary files is labelled and names the new identifier.
//!
//! Reads stay: a token that is write-restricted reads what its user can.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{GENERIC_ALL, HANDLE};
use windows_sys::Win32::Security::Authorization::{
    EXPLICIT_ACCESS_W, GRANT_ACCESS, NO_MULTIPLE_TRUSTEE, SetEntriesInAclW, TRUSTEE_IS_SID,
    TRUSTEE_IS_UNKNOWN, TRUSTEE_W,
};
use windows_sys::Win32::Security::{
    ACL, CreateRestrictedToken, GetTokenInformation, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    SID_AND_ATTRIBUTES, SetTokenInformation, TOKEN_ADJUST_DEFAULT, TOKEN_ASSIGN_PRIMARY, TOKEN_DEFAULT_DACL,
    TOKEN_DUPLICATE, TOKEN_GROUPS, TOKEN_INFORMATION_CLASS, TOKEN_MANDATORY_LABEL, TOKEN_PRIVILEGES,
    TOKEN_QUERY, TOKEN_USER, TokenDefaultDacl, TokenGroups, TokenIntegrityLevel, TokenPrivileges, TokenUser,
    WRITE_RESTRICTED,
};
use windows_sys::Win32::System::SystemServices::{SE_GROUP_INTEGRITY, SE_GROUP_LOGON_ID};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use crate::error::{Error, check};
use crate::sid::{EVERYONE, LOW_INTEGRITY, MEDIUM_INTEGRITY, SYSTEM, Sid};
use crate::verdict::TokenKind;
use crate::wide::terminated;

/// The privilege that stays.
const STAYS: &str = "SeChangeNotifyPrivilege";

/// Groups that can change the system: administrators and the operators of old.
const POWERFUL: &[&str] = &[
    // Local accounts that are administrators.
    "S-1-5-114",
    "S-1-5-32-544",
    // Power users; account, server, print and backup operators; network configuration; cryptography; Hyper-V.
    "S-1-5-32-547",
    "S-1-5-32-548",
    "S-1-5-32-549",
    "S-1-5-32-550",
    "S-1-5-32-551",
    "S-1-5-32-552",
    "S-1-5-32-556",
    "S-1-5-32-569",
    "S-1-5-32-578",
];

/// The last number of groups of a domain that rule it: administrators of domain, schema and enterprise, and who writes its
/// policies; the keys' administrators.
const POWERFUL_IN_DOMAIN: &[&str] = &["512", "516", "518", "519", "520", "521", "526", "527"];

/// A token for one sandbox.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) handle: OwnedHandle,
    /// Whose folder the private one is.
    pub(crate) user: Sid,
    /// The identifier that only this sandbox has.
    pub(crate) own: Sid,
}

impl Token {
    /// Makes it from this process's own.
    pub(crate) fn new(kind: TokenKind) -> Result<Token, Error> {
        let access = TOKEN_DUPLICATE | TOKEN_QUERY | TOKEN_ASSIGN_PRIMARY | TOKEN_ADJUST_DEFAULT;
        let mut process: HANDLE = std::ptr::null_mut();
        // SAFETY: the handle of this process is always valid, and `process` is where the result goes.
        let opened = unsafe { OpenProcessToken(GetCurrentProcess(), access, &mut process) };
        check(opened, "opening the token of this process")?;
        // SAFETY: it was just opened for us.
        let process = unsafe { OwnedHandle::from_raw_handle(process) };
        let (user, groups) = (user(&process)?, groups(&process)?);
        let privileges = privileges(&process)?;
        let own = Sid::of_nobody()?;
        let mut restricting = vec![own.clone()];
        restricting.extend(groups.iter().filter(|group| group.is_logon).map(|group| group.sid.clone()));
        restricting.push(Sid::parse(EVERYONE)?);
        let denied: Vec<&Sid> =
            groups.iter().map(|group| &group.sid).filter(|sid| is_powerful(&sid.to_string())).collect();
        let (flags, restricting) = match kind {
            TokenKind::NoWrites => (WRITE_RESTRICTED, restricting),
            TokenKind::UserWrites => (0, Vec::new()),
        };
        let entries = |sids: &[&Sid]| {
            sids.iter().map(|sid| SID_AND_ATTRIBUTES { Sid: sid.as_ptr(), Attributes: 0 }).collect()
        };
        let denied: Vec<SID_AND_ATTRIBUTES> = entries(&denied);
        let restricting: Vec<SID_AND_ATTRIBUTES> = entries(&restricting.iter().collect::<Vec<_>>());
        let mut restricted: HANDLE = std::ptr::null_mut();
        // SAFETY: each list has the length that is said, and all identifiers live until the end of this function.
        let made = unsafe {
            CreateRestrictedToken(
                process.as_raw_handle(),
                flags,
                denied.len() as u32,
                denied.as_ptr(),
                privileges.len() as u32,
                privileges.as_ptr(),
                restricting.len() as u32,
                restricting.as_ptr(),
                &mut restricted,
            )
        };
        check(made, "restricting the token")?;
        // SAFETY: it was just made for us.
        let handle = unsafe { OwnedHandle::from_raw_handle(restricted) };
        let token = Token { handle, user, own };
        token.lower_integrity(match kind {
            TokenKind::NoWrites => LOW_INTEGRITY,
            // Who is an administrator may have more, and the groups are not all that it is for.
            TokenKind::UserWrites => MEDIUM_INTEGRITY,
        })?;
        token.set_default_access(kind)?;
        Ok(token)
    }

    /// Lowers it to this level. One that is lower stays: nobody can raise it.
    fn lower_integrity(&self, level: &str) -> Result<(), Error> {
        let level = Sid::parse(level)?;
        if integrity(&self.handle)?.last() <= level.last() {
            return Ok(());
        }
        let label = TOKEN_MANDATORY_LABEL {
            Label: SID_AND_ATTRIBUTES { Sid: level.as_ptr(), Attributes: SE_GROUP_INTEGRITY as u32 },
        };
        let length = size_of::<TOKEN_MANDATORY_LABEL>() as u32 + level.length();
        // SAFETY: the structure and the identifier that it points to live until the call has returned.
        let set = unsafe {
            let label: *const TOKEN_MANDATORY_LABEL = &label;
            SetTokenInformation(self.handle.as_raw_handle(), TokenIntegrityLevel, label.cast(), length)
        };
        check(set, "lowering the integrity level of the token")
    }

    /// What the command makes (processes, pipes, events) has to be open to itself: who is restricted needs an entry for one
    /// of the restricting identifiers, else PowerShell cannot write to its own pipes. Not for the logon session, which other
    /// sandboxes of this user have as well.
    fn set_default_access(&self, kind: TokenKind) -> Result<(), Error> {
        let system = Sid::parse(SYSTEM)?;
        let mut sids = vec![&system, &self.user];
        if kind == TokenKind::NoWrites {
            sids.push(&self.own);
        }
        let entries: Vec<EXPLICIT_ACCESS_W> = sids
            .iter()
            .map(|sid| EXPLICIT_ACCESS_W {
                grfAccessPermissions: GENERIC_ALL,
                grfAccessMode: GRANT_ACCESS,
                grfInheritance: 0,
                Trustee: TRUSTEE_W {
                    pMultipleTrustee: std::ptr::null_mut(),
                    MultipleTrusteeOperation: NO_MULTIPLE_TRUSTEE,
                    TrusteeForm: TRUSTEE_IS_SID,
                    TrusteeType: TRUSTEE_IS_UNKNOWN,
                    ptstrName: sid.as_ptr().cast(),
                },
            })
            .collect();
        let mut list: *mut ACL = std::ptr::null_mut();
        // SAFETY: the entries and what they point to live; `list` is where the result goes.
        let error =
            unsafe { SetEntriesInAclW(entries.len() as u32, entries.as_ptr(), std::ptr::null(), &mut list) };
        if error != 0 {
            let source = std::io::Error::from_raw_os_error(error.cast_signed());
            return Err(Error::System { doing: "preparing the token's default access list".into(), source });
        }
        let default = TOKEN_DEFAULT_DACL { DefaultDacl: list };
        // SAFETY: the structure and the list live until the call has returned.
        let set = unsafe {
            let length = size_of::<TOKEN_DEFAULT_DACL>() as u32 + u32::from((*list).AclSize);
            let default: *const TOKEN_DEFAULT_DACL = &default;
            SetTokenInformation(self.handle.as_raw_handle(), TokenDefaultDacl, default.cast(), length)
        };
        let set = check(set, "setting the token's default access list");
        // SAFETY: it was allocated for us, and is not used any more.
        unsafe { windows_sys::Win32::Foundation::LocalFree(list.cast()) };
        set
    }
}

/// Whether a group can change the system.
fn is_powerful(sid: &str) -> bool {
    POWERFUL.contains(&sid)
        || sid
            .strip_prefix("S-1-5-21-")
            .and_then(|rest| rest.rsplit_once('-'))
            .is_some_and(|(_, last)| POWERFUL_IN_DOMAIN.contains(&last))
}

/// A group of a token.
struct Group {
    sid: Sid,
    /// Whether it stands for the logon session.
    is_logon: bool,
}

/// What Windows tells of a token, in memory that is aligned for every such structure.
fn information(token: &OwnedHandle, class: TOKEN_INFORMATION_CLASS) -> Result<Vec<u64>, Error> {
    let mut length = 0;
    let handle = token.as_raw_handle();
    // SAFETY: without a buffer only the length is told.
    unsafe { GetTokenInformation(handle, class, std::ptr::null_mut(), 0, &mut length) };
    let mut buffer = vec![0u64; (length as usize).div_ceil(8).max(1)];
    let size = (buffer.len() * 8) as u32;
    // SAFETY: the buffer has the size that is said.
    let told = unsafe { GetTokenInformation(handle, class, buffer.as_mut_ptr().cast(), size, &mut length) };
    check(told, "reading the token of this process")?;
    Ok(buffer)
}

fn user(token: &OwnedHandle) -> Result<Sid, Error> {
    let buffer = information(token, TokenUser)?;
    // SAFETY: the buffer holds this structure, whose pointer leads into it.
    Ok(unsafe { Sid::copy((*buffer.as_ptr().cast::<TOKEN_USER>()).User.Sid) })
}

fn integrity(token: &OwnedHandle) -> Result<Sid, Error> {
    let buffer = information(token, TokenIntegrityLevel)?;
    // SAFETY: as above.
    Ok(unsafe { Sid::copy((*buffer.as_ptr().cast::<TOKEN_MANDATORY_LABEL>()).Label.Sid) })
}

fn groups(token: &OwnedHandle) -> Result<Vec<Group>, Error> {
    let buffer = information(token, TokenGroups)?;
    let list = buffer.as_ptr().cast::<TOKEN_GROUPS>();
    // SAFETY: the buffer holds this structure, with as many entries as it says, whose pointers lead into it.
    let entries = unsafe {
        std::slice::from_raw_parts((&raw const (*list).Groups).cast(), (*list).GroupCount as usize)
    };
    let logon = SE_GROUP_LOGON_ID as u32;
    let group = |entry: &SID_AND_ATTRIBUTES| Group {
        // SAFETY: as above.
        sid: unsafe { Sid::copy(entry.Sid) },
        is_logon: entry.Attributes & logon == logon,
    };
    Ok(entries.iter().map(group).collect())
}

/// The privileges to delete: all but one, also those that are disabled.
fn privileges(token: &OwnedHandle) -> Result<Vec<LUID_AND_ATTRIBUTES>, Error> {
    let mut stays = windows_sys::Win32::Foundation::LUID { LowPart: 0, HighPart: 0 };
    // SAFETY: the name ends with a zero, and `stays` is where the result goes.
    let found = unsafe { LookupPrivilegeValueW(std::ptr::null(), terminated(STAYS).as_ptr(), &mut stays) };
    check(found, "looking up a privilege")?;
    let buffer = information(token, TokenPrivileges)?;
    let list = buffer.as_ptr().cast::<TOKEN_PRIVILEGES>();
    // SAFETY: the buffer holds this structure, with as many entries as it says.
    let entries: &[LUID_AND_ATTRIBUTES] = unsafe {
        std::slice::from_raw_parts((&raw const (*list).Privileges).cast(), (*list).PrivilegeCount as usize)
    };
    let is_other = |entry: &&LUID_AND_ATTRIBUTES| {
        (entry.Luid.LowPart, entry.Luid.HighPart) != (stays.LowPart, stays.HighPart)
    };
    Ok(entries.iter().filter(is_other).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_are_powerful_wherever_they_are_from_and_users_are_not() {
        for sid in ["S-1-5-32-544", "S-1-5-114", "S-1-5-21-1-2-3-512", "S-1-5-21-7-8-9-519"] {
            assert!(is_powerful(sid), "{sid}");
        }
        for sid in ["S-1-5-32-545", "S-1-1-0", "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-513", "S-1-5-5-0-512"] {
            assert!(!is_powerful(sid), "{sid}");
        }
    }

    #[test]
    fn an_identifier_is_its_text_and_no_two_sandboxes_have_the_same() {
        assert_eq!(Sid::parse("S-1-5-32-544").unwrap().to_string(), "S-1-5-32-544");
        assert_ne!(Sid::of_nobody().unwrap(), Sid::of_nobody().unwrap());
        assert!(Sid::parse("no identifier").is_err());
        let (low, medium) = (Sid::parse(LOW_INTEGRITY).unwrap(), Sid::parse(MEDIUM_INTEGRITY).unwrap());
        assert_eq!((low.last(), medium.last()), (4096, 8192));
    }
}
