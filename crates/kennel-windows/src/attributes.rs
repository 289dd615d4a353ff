//! What a new process is given beyond the arguments of `CreateProcess`: its job, and the handles that it inherits.

use std::marker::PhantomData;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{
    DeleteProcThreadAttributeList, InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST,
    PROC_THREAD_ATTRIBUTE_HANDLE_LIST, PROC_THREAD_ATTRIBUTE_JOB_LIST,
    PROC_THREAD_ATTRIBUTE_MITIGATION_POLICY, UpdateProcThreadAttribute,
};

use crate::error::{Error, check, failed};

/// A list of attributes. Windows keeps pointers to the values, so they live as long as this.
pub(crate) struct Attributes<'v> {
    buffer: Vec<u64>,
    values: PhantomData<&'v [HANDLE]>,
}

impl<'v> Attributes<'v> {
    /// A process that is born in these jobs, or not at all, inherits these handles and no others, and has these
    /// mitigations.
    pub(crate) fn new(
        jobs: &'v [HANDLE],
        handles: &'v [HANDLE],
        mitigations: &'v u64,
    ) -> Result<Attributes<'v>, Error> {
        const COUNT: u32 = 3;
        let mut size = 0;
        // SAFETY: without a list only its size is told.
        unsafe { InitializeProcThreadAttributeList(std::ptr::null_mut(), COUNT, 0, &mut size) };
        if size == 0 {
            return Err(failed("preparing the attributes of the process"));
        }
        let mut buffer = vec![0u64; size.div_ceil(8)];
        // SAFETY: the buffer has the size that Windows asked for.
        let made =
            unsafe { InitializeProcThreadAttributeList(buffer.as_mut_ptr().cast(), COUNT, 0, &mut size) };
        check(made, "preparing the attributes of the process")?;
        let mut list = Attributes { buffer, values: PhantomData };
        let bytes = |handles: &[HANDLE]| size_of_val(handles);
        list.add(PROC_THREAD_ATTRIBUTE_JOB_LIST as usize, jobs.as_ptr().cast(), bytes(jobs))?;
        list.add(PROC_THREAD_ATTRIBUTE_HANDLE_LIST as usize, handles.as_ptr().cast(), bytes(handles))?;
        let mitigations: *const u64 = mitigations;
        list.add(PROC_THREAD_ATTRIBUTE_MITIGATION_POLICY as usize, mitigations.cast(), size_of::<u64>())?;
        Ok(list)
    }

    fn add(&mut self, attribute: usize, value: *const core::ffi::c_void, size: usize) -> Result<(), Error> {
        let list = self.as_ptr();
        // SAFETY: the value is borrowed for as long as the list lives.
        let added = unsafe {
            UpdateProcThreadAttribute(list, 0, attribute, value, size, std::ptr::null_mut(), std::ptr::null())
        };
        check(added, "preparing the attributes of the process")
    }

    /// For `CreateProcess`.
    pub(crate) fn as_ptr(&mut self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        self.buffer.as_mut_ptr().cast()
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and is not used any more.
        unsafe { DeleteProcThreadAttributeList(self.as_ptr()) };
    }
}
